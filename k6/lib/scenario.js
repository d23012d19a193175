// What every scenario's script shares: from a shape file to k6's options and functions.
//
// The environment (k6 run -e NAME=VALUE), all of it optional but TARGET:
//   TARGET    base URL of the traffic listener
//   CONTROLS  {"backend id": "URL of its control endpoint"}, for the shape's events
//   PROFILE   quick, standard or nightly; Retune scales the shape itself and leaves it out
//   WARM      unmeasured load before the measured one, such as 12s
//   TIMEOUT   of one request
//   SEED      same seed, same clients
import http from 'k6/http';
import exec from 'k6/execution';
import { sleep } from 'k6';
import { Gauge } from 'k6/metrics';

const FACTORS = { quick: 0.2, standard: 1, nightly: 3 };
const MAX_VUS = 1000; // each takes 0.1 MB and 0.45 ms of CPU to make

// Markers in the stream of samples: what happened when.
const mark = new Gauge('rt_event');

// ms reads a Go duration such as 1m2.5s.
function ms(text) {
  const units = { ns: 1e-6, us: 1e-3, 'µs': 1e-3, ms: 1, s: 1000, m: 60000, h: 3600000 };
  let sum = 0;
  const rest = String(text).replace(/(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)/g, (_, n, unit) => {
    sum += Number(n) * units[unit];
    return '';
  });
  if (rest !== '' && rest !== '0') {
    throw new Error(`not a duration: ${text}`);
  }
  return sum;
}

const k6ms = (n) => `${Math.round(n)}ms`;

// address is the client that request n comes from; loadtest/clients.go has the same.
function address(seed, n, clients) {
  let h = (seed + Math.imul(n, 0x9e3779b9)) | 0;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  const i = ((h ^ (h >>> 16)) >>> 0) % clients + 1;
  return `10.${(i >> 16) & 255}.${(i >> 8) & 255}.${i & 255}`;
}

// control is the body that makes an event so.
function control(event) {
  switch (event.action) {
    case 'fail': return { down: true };
    case 'slowdown': return { slowdown: event.value };
    case 'error_rate': return { error_rate: event.value };
    default: return { down: false, error_rate: 0, slowdown: 1 };
  }
}

export function scenario(text) {
  const shape = JSON.parse(text);
  const factor = FACTORS[__ENV.PROFILE || 'standard'];
  if (!factor) {
    throw new Error(`PROFILE: ${__ENV.PROFILE} must be quick, standard or nightly`);
  }
  const target = (__ENV.TARGET || 'http://127.0.0.1:8080').replace(/\/$/, '') + (shape.path || '/');
  const controls = JSON.parse(__ENV.CONTROLS || '{}') || {};
  const warm = ms(__ENV.WARM || '0s');
  const timeout = ms(__ENV.TIMEOUT || '5s');
  const seed = Number(__ENV.SEED || 1);
  const events = shape.events || [];
  const think = shape.closed ? ms(shape.closed.think) / 1000 : 0;
  const admin = { tags: { name: 'admin' }, headers: { 'Content-Type': 'application/json' }, timeout: '3s' };

  // open is an arrival-rate scenario: requests start on time, however long the ones before them take.
  const open = (executor, peak, more) => {
    const vus = Math.min(MAX_VUS, Math.max(10, Math.ceil(peak * timeout / 1000)));
    return { executor, timeUnit: '1s', preAllocatedVUs: vus, maxVUs: vus, gracefulStop: k6ms(timeout), exec: 'load', ...more };
  };
  const closed = (duration, startTime) => ({
    executor: 'constant-vus', vus: shape.closed.users, duration: k6ms(duration), startTime: k6ms(startTime),
    gracefulStop: k6ms(timeout), exec: 'load',
  });

  function stages() {
    let rate = shape.phases[0].from;
    return shape.phases.flatMap((p) => {
      const step = p.from === rate ? [] : [{ target: p.from, duration: '0s' }];
      rate = p.to;
      return [...step, { target: p.to, duration: k6ms(ms(p.duration) * factor) }];
    });
  }

  function scenarios() {
    const all = {};
    if (shape.closed) {
      if (warm > 0) all.warm = closed(warm, 0);
      all.main = closed(ms(shape.closed.duration) * factor, warm);
    } else {
      const first = shape.phases[0].from;
      const peak = Math.max(...shape.phases.flatMap((p) => [p.from, p.to]));
      if (warm > 0 && first > 0) {
        all.warm = open('constant-arrival-rate', first, { rate: first, duration: k6ms(warm), startTime: '0ms' });
      }
      all.main = open('ramping-arrival-rate', peak, { startRate: first, stages: stages(), startTime: k6ms(warm) });
    }
    events.forEach((e, i) => {
      all[`event_${i}`] = {
        executor: 'per-vu-iterations', vus: 1, iterations: 1, startTime: k6ms(warm + ms(e.at) * factor),
        maxDuration: '5s', gracefulStop: '0s', exec: 'act', env: { EVENT: String(i) },
      };
    });
    return all;
  }

  const warmRequests = shape.closed ? 0 : Math.floor(shape.phases[0].from * warm / 1000);

  function load() {
    const n = exec.scenario.iterationInTest;
    const main = exec.scenario.name === 'main';
    if (main && n === 0) {
      mark.add(1, { event: 'begin', at: String(exec.scenario.startTime) });
    }
    http.get(target, {
      timeout, redirects: 0, tags: { name: 'app' },
      headers: { 'X-Forwarded-For': address(seed, main ? warmRequests + n : n, shape.clients) },
    });
    if (think > 0) sleep(think);
  }

  const put = (backend, body) => http.put(controls[backend], JSON.stringify(body), admin);

  function act() {
    const e = events[Number(__ENV.EVENT)];
    const answer = put(e.backend, control(e));
    const tags = { event: e.action, detail: e.backend + (e.value ? ` ${e.value}` : '') };
    if (answer.status < 200 || answer.status >= 300) {
      tags.detail += ` (control answered ${answer.status})`;
      tags.failed = 'true';
    }
    mark.add(1, tags);
  }

  // Setup and teardown both revive: a run before this one may have been killed, and this one may be interrupted.
  function reviveAll() {
    [...new Set(events.map((e) => e.backend))].forEach((b) => put(b, control({ action: 'revive' })));
  }

  return {
    options: { discardResponseBodies: true, setupTimeout: '10s', teardownTimeout: '10s', scenarios: scenarios() },
    setup: reviveAll, load, act, teardown: reviveAll,
  };
}
