package proxy

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
)

// keyPair writes a new self-signed certificate for localhost, and its key, into dir.
func keyPair(t *testing.T, dir string) (certFile, keyFile string, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(t, err)
	form := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	require.NoError(t, os.WriteFile(certFile, public, 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	roots = x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(public))
	return certFile, keyFile, roots
}

// secured runs a proxy that speaks TLS.
func (e contender) secured(t *testing.T, backends ...*rawServer) (*running, *tls.Config) {
	cert, key, roots := keyPair(t, t.TempDir())
	p := e.start(t, func(c *Config) { c.TLSCert, c.TLSKey = cert, key }, backends...)
	return p, &tls.Config{RootCAs: roots, ServerName: "localhost"}
}

// browser is a client of one version of HTTP, over TLS or not.
func browser(t *testing.T, version int, config *tls.Config) *http.Client {
	transport := &http.Transport{TLSClientConfig: config, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(version == 1)
	transport.Protocols.SetHTTP2(version == 2 && config != nil)
	transport.Protocols.SetUnencryptedHTTP2(version == 2 && config == nil)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: longEnough}
}

// HTTP/1.1 over TLS, HTTP/2 over TLS and HTTP/2 by prior knowledge reach the backend as the same request.
func TestComplianceOtherFronts(t *testing.T) {
	large := make([]byte, 2<<20)
	_, _ = rand.Read(large)
	sum := fmt.Sprintf("%x", sha256.Sum256(large))
	for _, c := range []struct {
		name    string
		version int
		secure  bool
		proto   string
	}{{"HTTP/1.1 over TLS", 1, true, "https"}, {"HTTP/2 over TLS", 2, true, "https"}, {"HTTP/2 by prior knowledge", 2, false, "http"}} {
		group := func(t *testing.T, e contender) {
			open := func(t *testing.T, b *rawServer) (*running, *http.Client, string) {
				if !c.secure {
					p := e.start(t, func(c *Config) { c.HTTP2 = true }, b)
					return p, browser(t, c.version, nil), p.url
				}
				p, config := e.secured(t, b)
				return p, browser(t, c.version, config), strings.Replace(p.url, "http:", "https:", 1)
			}
			check(t, "a request", func(t *testing.T) {
				b := rawBackend(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: a\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-End: 2\r\n\r\nok"))
				_, client, url := open(t, b)
				req, err := http.NewRequest("GET", url+"/a%2Fb?c=%zz;d", nil)
				require.NoError(t, err)
				req.URL.RawQuery = "c=%zz;d"
				req.Host = "shop.example:8443"
				req.Header.Set("Cookie", "a=b")
				res, err := client.Do(req)
				require.NoError(t, err)
				require.Equal(t, "ok", read(t, res))
				require.Equal(t, c.version, res.ProtoMajor)
				require.Equal(t, "2", res.Header.Get("X-End"))
				require.NotContains(t, res.Header, "X-Hop")
				got := b.requests()[0]
				require.Equal(t, "GET /a%2Fb?c=%zz;d HTTP/1.1", got.start())
				require.Equal(t, "shop.example:8443", got.get("Host"))
				require.Equal(t, c.proto, got.get("X-Forwarded-Proto"))
				require.Equal(t, "shop.example:8443", got.get("X-Forwarded-Host"))
				require.Equal(t, "127.0.0.1", got.get("X-Forwarded-For"))
				require.Equal(t, "a=b", got.get("Cookie"))
			})
			check(t, "large bodies and trailers both ways", func(t *testing.T) {
				_, client, url := open(t, rawBackend(t, func(conn *rawConn) {
					for {
						r := conn.request()
						conn.send("HTTP/1.1 200 OK\r\nX-Trailers: " + fmt.Sprint(strings.HasSuffix(strings.ToLower(r.raw), "\r\nx-sum: 5\r\n\r\n")) +
							"\r\nTrailer: X-Count\r\nTransfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\nX-Count: 7\r\n\r\n", len(r.body), r.body))
					}
				}))
				req, err := http.NewRequest("POST", url, io.MultiReader(bytes.NewReader(large)))
				require.NoError(t, err)
				req.Trailer = http.Header{"X-Sum": {"5"}}
				res, err := client.Do(req)
				require.NoError(t, err)
				body := read(t, res)
				require.Equal(t, sum, fmt.Sprintf("%x", sha256.Sum256(large)), "memory that nobody may write to has changed")
				require.Equal(t, sum, fmt.Sprintf("%x", sha256.Sum256([]byte(body))))
				require.Equal(t, "true", res.Header.Get("X-Trailers"))
				require.Equal(t, "7", res.Trailer.Get("X-Count"))
			})
			check(t, "many at once", func(t *testing.T) {
				_, client, url := open(t, rawBackend(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")))
				failed := make(chan error, 50)
				for range 50 {
					go func() {
						res, err := client.Get(url)
						if err == nil {
							_, err = io.Copy(io.Discard, res.Body)
							res.Body.Close()
						}
						failed <- err
					}()
				}
				for range 50 {
					require.NoError(t, <-failed)
				}
			})
			check(t, "an abort reaches the backend", func(t *testing.T) {
				asked, ended := make(chan struct{}), make(chan struct{})
				p, client, url := open(t, rawBackend(t, func(conn *rawConn) {
					defer close(ended)
					conn.request()
					close(asked)
					_, _ = conn.rest()
				}))
				ctx, cancel := context.WithCancel(t.Context())
				go func() { <-asked; cancel() }()
				req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
				require.NoError(t, err)
				_, err = client.Do(req)
				require.ErrorIs(t, err, context.Canceled)
				<-ended
				e.nobodysFailure(t, p)
			})
			check(t, "a broken answer looks broken", func(t *testing.T) {
				p, client, url := open(t, rawBackend(t, once("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello")))
				res, err := client.Get(url)
				require.NoError(t, err)
				_, err = io.ReadAll(res.Body)
				require.Error(t, err)
				res.Body.Close()
				p.blamed(t, 1)
			})
		}
		t.Run(c.name, func(t *testing.T) {
			if c.secure {
				t.Parallel()
				group(t, withTLS)
			} else {
				eachEngine(t, group)
			}
		})
	}
}

// withTLS is how every engine serves TLS: by the full lane.
var withTLS = contender{Engine: EngineAuto}

// What the screen refuses it refuses over TLS too; HTTP/2 is held to the same targets and hosts.
func TestComplianceTLS(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	t.Parallel()
	e := withTLS
	dial := func(t *testing.T, p *running, config *tls.Config) *tls.Conn {
		c, err := tls.Dial("tcp", p.addr, config)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		require.NoError(t, c.SetDeadline(time.Now().Add(longEnough)))
		return c
	}
	check(t, "ambiguous framing is refused", func(t *testing.T) {
		b := rawBackend(t, answering(ok))
		p, config := e.secured(t, b)
		c := dial(t, p, config)
		_, err := io.WriteString(c, get+post+"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+smuggled)
		require.NoError(t, err)
		got, err := io.ReadAll(c)
		require.NoError(t, err, "it ends with a close_notify")
		require.Equal(t, 1, strings.Count(string(got), "HTTP/1.1 200 "), "%q", got)
		require.Equal(t, 1, strings.Count(string(got), "HTTP/1.1 400 "), "%q", got)
		require.Len(t, b.requests(), 1)
	})
	check(t, "nothing below TLS 1.2", func(t *testing.T) {
		p, config := e.secured(t, rawBackend(t, answering(ok)))
		config.MaxVersion = tls.VersionTLS11
		_, err := tls.Dial("tcp", p.addr, config)
		require.Error(t, err)
		config.MaxVersion, config.MinVersion = tls.VersionTLS12, tls.VersionTLS12
		require.EqualValues(t, tls.VersionTLS12, dial(t, p, config).ConnectionState().Version)
	})
	check(t, "plain HTTP is told", func(t *testing.T) {
		p, _ := e.secured(t, rawBackend(t, answering(ok)))
		got := p.raw(get)
		require.Contains(t, got, " 400 ")
		require.Contains(t, got, "https://")
	})
	check(t, "a handshake that stalls is cut and keeps nobody waiting", func(t *testing.T) {
		cert, key, roots := keyPair(t, t.TempDir())
		p := e.start(t, func(c *Config) { c.TLSCert, c.TLSKey, c.HeadTimeout = cert, key, 300*time.Millisecond }, rawBackend(t, answering(ok)))
		silent := p.connect()
		client := browser(t, 2, &tls.Config{RootCAs: roots, ServerName: "localhost"})
		soon(t, "another shakes hands in time", func() bool {
			res, err := client.Get(strings.Replace(p.url, "http:", "https:", 1))
			return err == nil && read(t, res) == "ok"
		})
		silent.ended()
	})
	check(t, "WebSocket", func(t *testing.T) {
		cert, key, roots := keyPair(t, t.TempDir())
		p := e.over(t, func(c *Config) { c.TLSCert, c.TLSKey = cert, key }, backend(t, echoing))
		ctx, cancel := context.WithTimeout(t.Context(), longEnough)
		defer cancel()
		client := browser(t, 1, &tls.Config{RootCAs: roots, ServerName: "localhost"})
		c, _, err := websocket.Dial(ctx, strings.Replace(p.url, "http:", "wss:", 1), &websocket.DialOptions{HTTPClient: &http.Client{Transport: client.Transport}})
		require.NoError(t, err)
		defer c.CloseNow()
		require.NoError(t, c.Write(ctx, websocket.MessageText, []byte("hello")))
		_, got, err := c.Read(ctx)
		require.NoError(t, err)
		require.Equal(t, "hello", string(got))
	})
	for name, change := range map[string]func(*http.Request){
		"host":     func(r *http.Request) { r.Host = "a/b" },
		"fragment": func(r *http.Request) { r.URL.Opaque = "/a#b" },
	} {
		check(t, "HTTP/2 with a malformed "+name, func(t *testing.T) {
			b := rawBackend(t, answering(ok))
			p, config := e.secured(t, b)
			req, err := http.NewRequest("GET", strings.Replace(p.url, "http:", "https:", 1), nil)
			require.NoError(t, err)
			change(req)
			res, err := browser(t, 2, config).Do(req)
			if err == nil { // the client's library may refuse it too
				read(t, res)
				require.Equal(t, http.StatusBadRequest, res.StatusCode)
			}
			require.Empty(t, b.requests())
		})
	}
}

// A new certificate counts once both files have it; until then, and when they are of no use, the old one does.
func TestACertificateIsReadAgainWhenItChanges(t *testing.T) {
	dir := t.TempDir()
	cert, key, old := keyPair(t, dir)
	c, err := openCertificate(cert, key, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	ln := newSecure(listenLocal(t), c.config(), time.Minute, slog.New(slog.DiscardHandler))
	ended := make(chan error, 1)
	go func() { ended <- ln.serve() }()
	defer func() { require.NoError(t, ln.Close()); require.NoError(t, <-ended) }()
	serves := func(roots *x509.CertPool) bool {
		client, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{RootCAs: roots, ServerName: "localhost"})
		if err != nil {
			return false
		}
		defer client.Close()
		server, err := ln.Accept()
		require.NoError(t, err)
		require.NoError(t, server.Close())
		return true
	}
	require.True(t, serves(old))
	fresh := t.TempDir()
	newCert, newKey, roots := keyPair(t, fresh)
	require.NoError(t, os.Rename(newCert, cert))
	c.refresh()
	require.True(t, serves(old), "half a pair changes nothing")
	require.NoError(t, os.Rename(newKey, key))
	c.refresh()
	require.True(t, serves(roots))
	require.False(t, serves(old))
	require.NoError(t, os.WriteFile(cert, []byte("no PEM"), 0o600))
	c.refresh()
	require.NoError(t, os.Remove(key))
	c.refresh()
	require.True(t, serves(roots), "files of no use change nothing")
}

func TestAnUnusableCertificateSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	cert, key, _ := keyPair(t, dir)
	_, other, _ := keyPair(t, t.TempDir())
	empty := filepath.Join(dir, "empty.pem")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for name, c := range map[string]struct{ cert, key, want string }{
		"cert alone":        {cert, "", "--tls-key"},
		"key alone":         {"", key, "--tls-cert"},
		"no such file":      {dir + "/none.pem", key, "none.pem: no such file"},
		"another's key":     {cert, other, "private key does not match"},
		"empty certificate": {empty, key, "want a PEM certificate"},
		"key for both":      {key, key, "want a PEM certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(Config{Rules: filepath.Join(t.TempDir(), "r.yml"), Admin: "127.0.0.1:0", TLSCert: c.cert, TLSKey: c.key, Log: slog.New(slog.DiscardHandler)})
			require.ErrorContains(t, err, c.want)
		})
	}
}
