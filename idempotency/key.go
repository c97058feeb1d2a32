package idempotency

import (
	"errors"
	"net/http"
	"strings"
)

const (
	keyHeader    = "Idempotency-Key"
	maxKeyLength = 255
)

var (
	errKeyMissing = errors.New("the request has no key")
	errKeyLines   = errors.New("the request has more than one Idempotency-Key header")
	errKeyQuote   = errors.New("the key starts with a quote and is not a string of RFC 8941")
	errKeyEmpty   = errors.New("the key is empty")
	errKeyLong    = errors.New("the key is longer than 255 characters")
	errKeyASCII   = errors.New("the key has characters other than visible ASCII")
)

// keyOf returns the request's key, unquoted. The error is errKeyMissing, or says what is wrong with the key.
func keyOf(h http.Header) (string, error) {
	lines := h[keyHeader]
	switch len(lines) {
	case 0:
		return "", errKeyMissing
	case 1:
		return parseKey(lines[0])
	}
	return "", errKeyLines
}

// parseKey reads a header value: a bare key, or the same key as a string of RFC 8941, section 3.3.3, in quotes. A comma
// is a character like any other: the field is not a list.
func parseKey(value string) (string, error) {
	key := strings.Trim(value, " \t")
	if strings.HasPrefix(key, `"`) {
		unquoted, ok := unquote(key)
		if !ok {
			return "", errKeyQuote
		}
		key = unquoted
	}
	if key == "" {
		return "", errKeyEmpty
	}
	if len(key) > maxKeyLength {
		return "", errKeyLong
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return "", errKeyASCII
		}
	}
	return key, nil
}

// unquote reads a string of RFC 8941 that is the whole of s. Only a quote and a backslash may be escaped.
func unquote(s string) (string, bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), i == len(s)-1
		case '\\':
			i++
			if i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", false
}
