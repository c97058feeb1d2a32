package saferetry

import (
	"log/slog"
	"net/http"
	"net/url"
	"time"
)

// announce tells hooks and log that another attempt will follow a.
func (op *operation) announce(a Attempt, wait time.Duration) {
	if op.cfg.logger != nil {
		op.cfg.logger.LogAttrs(op.ctx, slog.LevelWarn, "saferetry: attempt failed, trying again",
			op.attrs(a.Number, cameBack(a), slog.Duration("wait", wait))...)
	}
	if hook := op.cfg.hooks.Wait; hook != nil {
		hook(a, wait)
	}
}

// fail ends the operation with an error.
func (op *operation) fail(err error) error {
	e := &Error{Report: op.report(), Err: err, target: target(op.req)}
	op.done(err)
	return e
}

// done tells hooks and log that the operation has ended.
func (op *operation) done(err error) {
	if op.cfg.logger != nil && (err != nil || op.attempts > 1) {
		result := slog.String("error", errorClass(err))
		if op.answer != nil {
			result = slog.Int("status", op.answer.StatusCode)
		}
		op.cfg.logger.LogAttrs(op.ctx, slog.LevelInfo, "saferetry: operation ended", op.attrs(op.attempts, result,
			slog.String("reason", op.reason.String()), slog.String("outcome", op.tally.outcome().String()),
			slog.Duration("waited", op.waited))...)
	}
	if hook := op.cfg.hooks.Done; hook != nil {
		hook(op.req, op.report())
	}
}

// attrs are the attributes of a log record: what may be shown of the request,
// then more.
func (op *operation) attrs(attempt int, more ...slog.Attr) []slog.Attr {
	attrs := make([]slog.Attr, 0, 4+len(more))
	if op.req != nil {
		attrs = append(attrs, slog.String("method", method(op.req)), slog.String("url", bareURL(op.req.URL)))
	}
	attrs = append(attrs, slog.Int("attempt", attempt))
	attrs = append(attrs, more...)
	if op.key != "" {
		attrs = append(attrs, slog.String("key", keyPrefix(op.key)))
	}
	return attrs
}

func cameBack(a Attempt) slog.Attr {
	if a.Response != nil {
		return slog.Int("status", a.Response.StatusCode)
	}
	return slog.String("error", errorClass(a.Err))
}

func target(req *http.Request) string {
	if req == nil {
		return ""
	}
	return method(req) + " " + bareURL(req.URL)
}

func method(req *http.Request) string {
	if req.Method == "" {
		return http.MethodGet
	}
	return req.Method
}

// bareURL is u's scheme, host and path: user info and query are secrets.
func bareURL(u *url.URL) string {
	if u == nil {
		return "no URL"
	}
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return bare.String()
}

// keyPrefix is as much of a key as logs and errors show.
func keyPrefix(key string) string { return key[:min(len(key), 8)] }
