package saferetry

import "net/http"

// NewClient returns a copy of base whose requests are safe to retry: its
// Transport is a [Transport] over base's. Redirects, cookies and Timeout stay
// base's own. Timeout bounds the operation with all its attempts, but net/http
// then puts an error of its own in place of the one with the report: a deadline
// in the request's context keeps it. A nil base stands for a zero http.Client.
func NewClient(base *http.Client, opts ...Option) *http.Client {
	var client http.Client
	if base != nil {
		client = *base
	}
	client.Transport = NewTransport(client.Transport, opts...)
	return &client
}
