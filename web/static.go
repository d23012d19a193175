package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"
)

//go:embed static
var staticFiles embed.FS

// staticSum changes whenever one of the files does; pages name files by it, so that they can be kept for a year.
var staticSum = sync.OnceValue(func() string {
	h := sha256.New()
	_ = fs.WalkDir(staticFiles, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := staticFiles.ReadFile(name)
		h.Write(b)
		return err
	})
	return hex.EncodeToString(h.Sum(nil))[:12]
})

// asset is the address of an embedded file.
func asset(name string) string { return "/static/" + staticSum() + "/" + name }

// static serves the embedded files at /static/{sum}/….
func (s *Server) static(c echo.Context) error {
	sum, name, _ := strings.Cut(c.Param("*"), "/")
	f, err := staticFiles.Open(path.Join("static", path.Clean("/"+name)))
	if err != nil || strings.HasSuffix(name, "/") || name == "" {
		return echo.ErrNotFound
	}
	defer f.Close()
	if sum == staticSum() {
		c.Response().Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeFileFS(c.Response(), c.Request(), staticFiles, path.Join("static", path.Clean("/"+name)))
	return nil
}

// favicon is asked for by browsers whatever the page says.
func (s *Server) favicon(c echo.Context) error {
	c.Response().Header().Set("Cache-Control", "public, max-age=86400")
	http.ServeFileFS(c.Response(), c.Request(), staticFiles, "static/favicon.svg")
	return nil
}
