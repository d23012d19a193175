package main

import (
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/lmittmann/tint"
	"github.com/mattn/go-isatty"
)

// logFlags say how a long-running command logs.
type logFlags struct {
	LogLevel  slog.Level `default:"info" env:"RETUNE_LOG_LEVEL" help:"debug, info, warn or error."`
	LogFormat string     `default:"auto" enum:"auto,json,text" env:"RETUNE_LOG_FORMAT" help:"auto is text on a terminal and JSON elsewhere."`
}

// logger writes to w, which is the terminal or what a supervisor collects.
func (f logFlags) logger(w io.Writer) *slog.Logger {
	if f.LogFormat == "text" || f.LogFormat == "auto" && terminal(w) {
		return slog.New(tint.NewTextHandler(w, &tint.Options{
			Level: f.LogLevel, TimeFormat: time.TimeOnly, NoColor: noColor() || !terminal(w),
		}))
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: f.LogLevel}))
}

// terminal reports whether w is one.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && (isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd()))
}
