package wire

import (
	"fmt"
	"net/http"
)

// Fault is why a request was refused before the server saw it. Faults are shared values; never change one.
type Fault struct {
	Status int    // what the client is answered: 400, 408, 431, 501
	Cause  string // for the client and the log, e.g. "bare line feed"
}

// Error names the status and the cause.
func (f *Fault) Error() string { return fmt.Sprintf("%d: %s", f.Status, f.Cause) }

func bad(cause string) *Fault { return &Fault{http.StatusBadRequest, cause} }

// Every fault there is. Most of them are ways to make two parsers disagree about where a request ends.
var (
	RequestLine      = bad("malformed request line")
	errVersion       = bad("not HTTP/1.0 or HTTP/1.1")
	errHTTP2         = bad("HTTP/2 without TLS is not enabled")
	BareLF           = bad("line feed without carriage return")
	errControl       = bad("control character in the head")
	errFold          = bad("folded header line")
	errHeaderName    = bad("malformed header name")
	errTarget        = bad("malformed request target")
	errHost          = bad("not exactly one sound Host header")
	errLength        = bad("malformed Content-Length")
	errTwoLengths    = bad("more than one Content-Length")
	errLengthAndTE   = bad("both Content-Length and Transfer-Encoding")
	errTwoTE         = bad("more than one Transfer-Encoding")
	errOldTE         = bad("Transfer-Encoding in HTTP/1.0")
	errChunkSize     = bad("malformed chunk size")
	errChunkEnd      = bad("chunk data without its line end")
	errTrailer       = bad("malformed trailer")
	errTrailerLength = bad("trailer too long")
	errStatusLine    = bad("malformed status line")
	UnaskedAnswer    = bad("an interim answer that nobody asked for")
	errCoding        = &Fault{http.StatusNotImplemented, "unknown transfer coding"}
	HeadSize         = &Fault{http.StatusRequestHeaderFieldsTooLarge, "request head too large"}
	BodyTime         = &Fault{http.StatusRequestTimeout, "request body too slow"}
	HeadTime         = &Fault{http.StatusRequestTimeout, "request head too slow"}
)
