// Package k6 holds the bundled scenarios: a shape file each (what load, what events) and a short k6 script that
// builds its options from it. Both drivers run the shapes; only the user's own k6 program runs the scripts.
package k6

import "embed"

// Files are the shapes (NAME.json), the scripts (NAME.js) and what the scripts share (lib/).
//
//go:embed *.json *.js lib/*.js
var Files embed.FS
