package web

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Files of others are taken as they are published, each with its licence.
func TestVendoredFilesAreThoseThatWereReviewed(t *testing.T) {
	allowed := []string{"0BSD", "MIT", "MPL-2.0"}
	for _, folder := range []string{"static/vendor", "testdata/axe"} {
		var list []struct {
			Name, Version, Licence, File, SHA256 string
			LicenceFile                          string `json:"licence_file"`
		}
		text, err := os.ReadFile(filepath.Join(folder, "VENDOR.json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &list))
		known := []string{"VENDOR.json"}
		for _, v := range list {
			content, err := os.ReadFile(filepath.Join(folder, v.File))
			require.NoError(t, err)
			sum := sha256.Sum256(content)
			require.Equal(t, v.SHA256, hex.EncodeToString(sum[:]), "%s is not %s %s as published", v.File, v.Name, v.Version)
			require.Contains(t, allowed, v.Licence, v.Name)
			known = append(known, v.File, v.LicenceFile)
		}
		entries, err := os.ReadDir(folder)
		require.NoError(t, err)
		for _, e := range entries {
			require.True(t, slices.Contains(known, e.Name()), "%s/%s stands in no VENDOR.json", folder, e.Name())
		}
		for _, name := range known {
			require.FileExists(t, filepath.Join(folder, name))
		}
	}
}

func TestStaticFilesAreKeptByTheirSumAlone(t *testing.T) {
	s := newServer(t, newMemory())
	for _, name := range []string{"app.css", "app.js", "favicon.svg", "vendor/htmx.min.js", "vendor/pico.min.css"} {
		w := ask(t, s, "GET", asset(name), nil)
		require.Equal(t, 200, w.Code, name)
		require.Contains(t, w.Header().Get("Cache-Control"), "immutable", name)
	}
	require.Equal(t, "no-store", ask(t, s, "GET", "/static/old/app.css", nil).Header().Get("Cache-Control"))
	for _, path := range []string{"/static/", "/static/x/", "/static/x/nothing.js", "/static/x/../../server.go", "/static/x/vendor/"} {
		require.Equal(t, 404, ask(t, s, "GET", path, nil).Code, path)
	}
	require.Equal(t, "image/svg+xml", ask(t, s, "GET", "/favicon.ico", nil).Header().Get("Content-Type"))
}
