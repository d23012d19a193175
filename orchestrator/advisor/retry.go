package advisor

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// maxRetries is how often one question is sent again after 429, 5xx, a time-out or a broken connection.
const maxRetries = 4

// patient is a client over base that tries again with a jittered, growing wait, or with the wait that Retry-After
// asks for. It gives up early when that wait would end after the context does.
func patient(base http.RoundTripper, least, most time.Duration) *http.Client {
	c := retryablehttp.NewClient()
	c.HTTPClient = &http.Client{Transport: base, CheckRedirect: noRedirect}
	c.Logger = nil
	c.RetryMax, c.RetryWaitMin, c.RetryWaitMax = maxRetries, least, most
	c.Backoff = retryablehttp.RateLimitLinearJitterBackoff
	c.CheckRetry = worthRetrying
	c.ErrorHandler = retryablehttp.PassthroughErrorHandler
	out := c.StandardClient()
	out.CheckRedirect = noRedirect
	return out
}

// noRedirect keeps the key from following a redirect to another host.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func worthRetrying(ctx context.Context, resp *http.Response, err error) (bool, error) {
	if errors.Is(err, errTooLarge) {
		return false, err
	}
	again, checkErr := retryablehttp.DefaultRetryPolicy(ctx, resp, err)
	deadline, bounded := ctx.Deadline()
	if !again || !bounded || resp == nil {
		return again, checkErr
	}
	wait := retryablehttp.DefaultBackoff(0, 0, 0, resp)
	return !time.Now().Add(wait).After(deadline), checkErr
}
