package postgres

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/saferetry/saferetry/idempotency"
)

// headerText returns h as JSON, for people to read in the table: an object of lists of lines. It is nil for a nil h.
func headerText(h http.Header) *string {
	if h == nil {
		return nil
	}
	text := make(map[string][]string, len(h))
	for name, lines := range h {
		var kept []string // stays nil for a field without lines, which is JSON's null
		for _, line := range lines {
			kept = append(kept, readable(line))
		}
		text[readable(name)] = kept
	}
	b, _ := json.Marshal(text) // strings alone: it does not fail
	s := string(b)
	return &s
}

// header undoes headerText.
func header(text []byte) (http.Header, error) {
	if text == nil {
		return nil, nil
	}
	var kept map[string][]string
	if err := json.Unmarshal(text, &kept); err != nil {
		return nil, fmt.Errorf("postgres: the stored header: %w", err)
	}
	h := make(http.Header, len(kept))
	for name, lines := range kept {
		for i := range lines {
			lines[i] = original(lines[i])
		}
		h[original(name)] = lines
	}
	return h, nil
}

// A row is what the table has of an answer.
type row struct {
	fingerprint []byte
	status      *int
	notStored   *bool
	header      []byte
	body        []byte
}

func (r *row) answer() (*idempotency.Answer, error) {
	h, err := header(r.header)
	if err != nil {
		return nil, err
	}
	return &idempotency.Answer{Status: *r.status, Header: h, Body: r.body, NotStored: *r.notStored}, nil
}
