package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// serverFlags says where the orchestrator's API is; every command that talks to it has them.
type serverFlags struct {
	Server string `help:"Base URL of the orchestrator's web server." default:"http://127.0.0.1:8090" env:"RETUNE_SERVER"`
	Token  string `help:"Its token, if it has one." env:"RETUNE_AUTH_TOKEN" hidden:"" secret:""`
}

// apiClient talks to the orchestrator's JSON API.
type apiClient struct {
	base, token string
	http        *http.Client
}

func (f serverFlags) client() (*apiClient, error) {
	u, err := url.Parse(f.Server)
	if err != nil || u.Host == "" {
		return nil, usage("--server %q: want a URL such as http://127.0.0.1:8090", f.Server)
	}
	return &apiClient{base: strings.TrimSuffix(f.Server, "/"), token: f.Token, http: &http.Client{Timeout: time.Minute}}, nil
}

// apiProblem is an RFC 9457 answer of the API.
type apiProblem struct {
	Status int    `json:"status"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
	Cycle  int64  `json:"cycle_id"` // of the one that is queued or running, when that is why
	Errors []struct {
		Message  string `json:"message"`
		Location string `json:"location"`
	} `json:"errors"`
}

func (p *apiProblem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	for _, e := range p.Errors {
		text += "\n  " + strings.TrimPrefix(e.Location+": ", ": ") + e.Message
	}
	if p.Cycle != 0 {
		text += fmt.Sprintf("; see it with `retune cycle watch %d`, or end it with `retune cycle cancel %d`", p.Cycle, p.Cycle)
	}
	return text
}

// call makes one request below /api/v1; in and out are JSON, either may be nil. out may be a *[]byte for the body as it is.
func (c *apiClient) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+"/api/v1"+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return unavailable(fmt.Errorf("no orchestrator answers at %s (%w): start one with `make run`, or name it with --server", c.base, err))
	}
	defer res.Body.Close()
	return decode(res, out)
}

func decode(res *http.Response, out any) error {
	b, err := io.ReadAll(io.LimitReader(res.Body, 64<<20))
	if err != nil {
		return fmt.Errorf("reading the orchestrator's answer: %w", err)
	}
	if res.StatusCode/100 != 2 {
		p := &apiProblem{}
		if json.Unmarshal(b, p) != nil || p.Title+p.Detail == "" {
			p.Detail = fmt.Sprintf("the orchestrator answers %s", res.Status)
		}
		p.Status = res.StatusCode
		switch {
		case p.Status == http.StatusUnauthorized:
			return unavailable(errors.New("the orchestrator wants its token: set RETUNE_AUTH_TOKEN to it"))
		case p.Status == http.StatusUnprocessableEntity:
			return &exitError{exitUsage, p}
		case p.Status == http.StatusServiceUnavailable, p.Status == http.StatusBadGateway:
			return unavailable(p)
		}
		return p
	}
	switch to := out.(type) {
	case nil:
		return nil
	case *[]byte:
		*to = b
		return nil
	}
	return json.Unmarshal(b, out)
}
