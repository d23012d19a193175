package advisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"unicode/utf8"
)

// tape is a cassette that is being recorded.
type tape struct{ path string }

// taping keeps recordings of one process from each other's files.
var taping sync.Mutex

// tapeFor is the cassette for a cycle's exchanges: record itself when it is named like one, else a file in that
// folder. Nil when nothing is to be recorded.
func tapeFor(record string, cycle int64) *tape {
	switch {
	case record == "":
		return nil
	case filepath.Ext(record) == ".jsonl":
		return &tape{record}
	case cycle == 0:
		return &tape{filepath.Join(record, "calls.jsonl")}
	}
	return &tape{filepath.Join(record, fmt.Sprintf("cycle-%d.jsonl", cycle))}
}

// add writes one more exchange. The file is replaced as a whole, so that neither a reader nor a crash sees half of a line.
func (t *tape) add(x exchange) error {
	line, err := json.Marshal(x)
	if err != nil {
		return err
	}
	taping.Lock()
	defer taping.Unlock()
	before, err := os.ReadFile(t.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("recording the exchange: %w", err)
	}
	if err := replaceFile(t.path, append(append(before, line...), '\n')); err != nil {
		return fmt.Errorf("recording the exchange: %w", err)
	}
	return nil
}

// replaceFile writes a file beside the old one, and puts it in its place when it is on the disk.
func replaceFile(path string, content []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".cassette-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// headersKept are the headers of an answer that a cassette keeps.
var headersKept = []string{"Content-Type", "Retry-After", "X-Request-Id"}

// exchangeOf is what a cassette keeps of an exchange: what was sent, and the answer or why there was none. The key is
// taken out of both, should a server have sent it back.
func (r *recorder) exchangeOf(c Call, sent []byte, resp *http.Response, body []byte, failed error) (exchange, error) {
	x := exchange{At: c.At.UTC(), LatencyNS: c.Latency}
	canonical, err := canonicalJSON([]byte(r.redact(string(sent))))
	if err != nil {
		return x, fmt.Errorf("recording a request that is no JSON: %w", err)
	}
	x.Request, x.RequestSHA = canonical, sha(canonical)
	if resp == nil {
		x.Error, x.Outcome = r.redact(failed.Error()), c.Outcome
		return x, nil
	}
	x.Status, x.Header = resp.StatusCode, map[string]string{}
	for _, name := range headersKept {
		if v := resp.Header.Get(name); v != "" {
			x.Header[name] = r.redact(v)
		}
	}
	x.Body = r.redact(string(body))
	if !utf8.ValidString(x.Body) {
		x.Body, x.Bytes = "", []byte(x.Body)
	}
	return x, nil
}
