// What the pages do beyond links and forms: theme, local times, charts, and the end of a live cycle.
// Everything is readable without it.
(() => {
  "use strict";
  const root = document.documentElement;

  // Theme: auto follows the system. It is set before the page is drawn, so that nothing flashes.
  const themes = ["auto", "light", "dark"];
  const theme = () => localStorage.getItem("retune-theme") || "auto";
  const showTheme = () => {
    if (theme() === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme();
    const button = document.getElementById("theme");
    if (!button) return;
    button.hidden = false;
    button.textContent = "Theme: " + theme();
  };
  const nextTheme = () => {
    localStorage.setItem("retune-theme", themes[(themes.indexOf(theme()) + 1) % themes.length]);
    showTheme();
    redraw();
  };
  showTheme();

  // Times are sent as UTC; a reader sees their own zone, and UTC in the tooltip.
  const localTimes = (within) => {
    const format = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
    const withYear = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" });
    for (const t of within.querySelectorAll("time[datetime]:not([data-keep]):not([title])")) {
      const at = new Date(t.dateTime);
      t.title = t.textContent;
      t.textContent = (at.getFullYear() === new Date().getFullYear() ? format : withYear).format(at);
    }
  };

  // Colours come from the style sheet. A probe resolves light-dark(), which a custom property alone does not.
  const colour = (name) => {
    const probe = document.createElement("span");
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    const value = getComputedStyle(probe).color;
    probe.remove();
    return value;
  };

  const charts = [];
  const redraw = () => charts.forEach((c) => c.draw());
  const milliseconds = (v) => (v == null ? "–" : v.toFixed(v < 10 ? 1 : 0) + " ms");
  const perSecond = (v) => (v == null ? "–" : v.toFixed(v < 10 ? 1 : 0) + " /s");
  const percent = (v) => (v == null ? "–" : (100 * v).toFixed(1) + "%");
  const timeOfDay = (v) => new Date(v * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const lines = {
    rps: { label: "RPS", column: "rps", scale: "rps", value: perSecond },
    p50: { label: "p50", column: "p50_ms", scale: "ms", value: milliseconds },
    p95: { label: "p95", column: "p95_ms", scale: "ms", value: milliseconds },
    p99: { label: "p99", column: "p99_ms", scale: "ms", value: milliseconds },
    errors: { label: "errors", column: "error_rate", scale: "share", value: percent },
  };
  const shown = { run: ["rps", "p50", "p95", "p99", "errors"], live: ["rps", "p95", "errors"] };

  // marks draws what happened during a run as vertical lines; their words stand below the chart.
  const marks = (kind, data) => ({
    hooks: {
      draw: [
        (u) => {
          u.ctx.save();
          u.ctx.strokeStyle = u.ctx.fillStyle = colour("muted");
          u.ctx.font = `${11 * devicePixelRatio}px sans-serif`;
          u.ctx.setLineDash([4, 4]);
          for (const m of data.marks) {
            const x = Math.round(u.valToPos(m.t, "x", true));
            u.ctx.beginPath();
            u.ctx.moveTo(x, u.bbox.top);
            u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
            u.ctx.stroke();
            if (kind === "live") continue; // too many to be named
            const width = u.ctx.measureText(m.text).width;
            const left = Math.min(x + 4, u.bbox.left + u.bbox.width - width);
            u.ctx.fillText(m.text, left, u.bbox.top + 11 * devicePixelRatio);
          }
          u.ctx.restore();
        },
      ],
    },
  });

  const options = (kind, data, width, log) => {
    const axis = { stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 } };
    const clock = kind === "live";
    const y = log ? { distr: 3 } : { range: (u, min, max) => [0, Math.max(max * 1.08, 1)] };
    return {
      width,
      height: width < 500 ? 220 : kind === "live" ? 240 : 320,
      scales: { x: { time: clock }, rps: y, ms: y, share: { range: (u, min, max) => [0, Math.max(max * 1.08, 0.25)] } },
      axes: [
        clock ? { ...axis, space: 72, values: (u, s) => s.map(timeOfDay) } : { ...axis, values: (u, s) => s.map((v) => v + " s") },
        { ...axis, scale: "rps", size: 52, values: (u, s) => s.map((v) => (v == null ? "" : v)) },
        { ...axis, scale: "ms", side: 1, size: 74, grid: { show: false }, values: (u, s) => s.map((v) => (v == null ? "" : v + " ms")) },
      ],
      series: [
        clock ? { label: "time" } : { label: "second", value: (u, v) => (v == null ? "–" : v.toFixed(0)) },
        ...shown[kind].map((name) => {
          const { label, scale, value } = lines[name];
          return { label, scale, value: (u, v) => value(v), stroke: colour("series-" + name), width: 1.5, points: { show: false }, spanGaps: false };
        }),
      ],
      plugins: [marks(kind, data)],
    };
  };

  // columns are what uPlot takes. A logarithm has no zero: a second without latencies is a gap there, as everywhere
  // a latency of 0 means that nothing was measured.
  const columns = (kind, data, log) => [
    data.t,
    ...shown[kind].map((name) => {
      const { column, scale } = lines[name];
      return data[column].map((v) => (v === 0 && (scale === "ms" || (log && scale === "rps")) ? null : v));
    }),
  ];

  const chart = async (figure) => {
    const kind = figure.dataset.chart;
    const answer = await fetch(figure.dataset.src, { headers: { Accept: "application/json" } }).catch(() => null);
    const data = answer?.ok ? await answer.json() : {};
    for (const name of ["t", ...Object.values(lines).map((l) => l.column)]) data[name] ||= [];
    data.marks ||= [];
    if (kind === "run") {
      const start = data.t[0]; // one run is read by its own clock
      data.t = data.t.map((t) => t - start);
      for (const m of data.marks) m.t -= start;
    }
    const box = document.createElement("div");
    figure.append(box);
    let plot = null;
    const c = {
      log: false,
      data,
      draw() {
        plot?.destroy();
        plot = new uPlot(options(kind, data, box.clientWidth, c.log), columns(kind, data, c.log), box);
      },
      add(point) {
        if (point.t <= (data.t.at(-1) ?? 0)) return;
        for (const [name, value] of Object.entries(point)) data[name].push(value);
        plot.setData(columns(kind, data, c.log));
      },
    };
    new ResizeObserver(() => plot && plot.width !== box.clientWidth && plot.setSize({ width: box.clientWidth, height: plot.height })).observe(box);
    c.draw();
    charts.push(c);
    return c;
  };

  const logToggle = (button, c) => {
    button.hidden = false;
    button.addEventListener("click", () => {
      c.log = !c.log;
      button.setAttribute("aria-pressed", String(c.log));
      button.textContent = c.log ? "Linear scale" : "Log scale";
      c.draw();
    });
  };

  // A running cycle's chart gets each second's figures.
  const live = (box, c) => {
    const read = () => {
      const d = box.querySelector("[data-at]")?.dataset;
      if (d) c.add({ t: d.at / 1000, rps: +d.rps, p50_ms: null, p95_ms: +d.p95, p99_ms: null, error_rate: +d.errors });
    };
    read();
    box.addEventListener("htmx:afterSettle", read);
  };

  document.addEventListener("DOMContentLoaded", async () => {
    showTheme();
    document.getElementById("theme").addEventListener("click", nextTheme);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    localTimes(document);
    document.body.addEventListener("htmx:afterSettle", () => localTimes(document));
    // A running cycle's page is loaded anew at its end.
    document.body.addEventListener("htmx:sseClose", (e) => e.detail.type === "message" && location.reload());
    for (const select of document.querySelectorAll("[data-submit]")) {
      select.addEventListener("change", () => select.form.requestSubmit());
    }
    for (const field of document.querySelectorAll("[data-zone]")) {
      field.value = Intl.DateTimeFormat().resolvedOptions().timeZone || field.value;
    }
    for (const figure of document.querySelectorAll("[data-chart]")) {
      const c = await chart(figure);
      const box = figure.closest("[data-live]");
      if (box) live(box, c);
      const button = figure.closest("section")?.querySelector("[data-log]");
      if (button) logToggle(button, c);
    }
  });
})();
