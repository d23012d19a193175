package advisor

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
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
	c.Backoff = backoff
	c.CheckRetry = worthRetrying
	c.ErrorHandler = retryablehttp.PassthroughErrorHandler
	out := c.StandardClient()
	out.CheckRedirect = noRedirect
	return out
}

// noRedirect keeps the key from following a redirect to another host.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func backoff(least, most time.Duration, attempt int, resp *http.Response) time.Duration {
	if wait, told := retryAfter(resp, time.Now()); told {
		return wait
	}
	return retryablehttp.LinearJitterBackoff(least, most, attempt, nil)
}

func worthRetrying(ctx context.Context, resp *http.Response, err error) (bool, error) {
	if _, is := errors.AsType[final](err); is {
		return false, err
	}
	again, checkErr := retryablehttp.DefaultRetryPolicy(ctx, resp, err)
	deadline, bounded := ctx.Deadline()
	wait, told := retryAfter(resp, time.Now())
	if !again || !bounded || !told {
		return again, checkErr
	}
	return wait < time.Until(deadline), checkErr
}

// longest is a wait that nobody waits for; a longer one would overflow a duration.
const longest = 10 * 365 * 24 * time.Hour

// retryAfter is how long a response asks to wait, in seconds or until a date (RFC 9110 §10.2.3); false when it does not say.
func retryAfter(resp *http.Response, now time.Time) (time.Duration, bool) {
	if resp == nil || resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	text := strings.TrimSpace(resp.Header.Get("Retry-After"))
	if strings.Trim(text, "0123456789") == "" && text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds > int64(longest/time.Second) {
			return longest, true
		}
		return time.Duration(seconds) * time.Second, true
	}
	until, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	return max(0, until.Sub(now)), true
}
