package conformance

import (
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"
)

// An operation is a request to be sent, once or more often. It is a value: its
// methods return another, and say in what it is another.
type operation struct {
	method string
	url    string
	header http.Header
	body   []byte
	keys   []string // the lines of the key header; nil: it is not there
	notes  []string // what is special about it
	way    *Way     // by which the endpoint is made to do more than the operation
}

// operation is a fresh one: a key and a body that were never sent.
func (p *probe) operation() operation {
	p.run.n++
	op := operation{
		method: p.target.Method, url: p.target.URL, header: p.target.Header, body: body(p.target.Body, p.run.n),
	}
	return op.fresh(p)
}

// fresh is op under a new key.
func (op operation) fresh(p *probe) operation { return op.keyed(p.newKey()) }

func (p *probe) newKey() string {
	key := uuid.NewString()
	p.letters[key] = string(rune('A' + len(p.letters)))
	return key
}

// keyed is op with these lines of the key header.
func (op operation) keyed(lines ...string) operation {
	op.keys = lines
	return op
}

// noted adds to what is special about op.
func (op operation) noted(note string) operation {
	op.notes = append(op.notes[:len(op.notes):len(op.notes)], note)
	return op
}

// other is op with another body. The target has one.
func (op operation) other(p *probe) operation {
	if p.target.OtherBody != "" {
		op.body = []byte(p.target.OtherBody)
	} else {
		p.run.n++
		op.body = body(p.target.Body, p.run.n)
	}
	op.body, _ = op.way.apply(op.body) // validate has seen that it can be
	return op.noted("another body")
}

// written is op with its body written in another way.
func (op operation) written(text []byte, how string) operation {
	op.body = text
	return op.noted(how)
}

// as is op with header fields in place of its own.
func (op operation) as(h http.Header, who string) operation {
	op.header = op.header.Clone()
	for name, values := range h {
		op.header[http.CanonicalHeaderKey(name)] = values
	}
	return op.noted(who)
}

// at is op for another address.
func (op operation) at(address, where string) operation {
	op.url = address
	return op.noted(where)
}

// by is op with another method.
func (op operation) by(method string) operation {
	op.method = method
	return op.noted("by " + method)
}

// made is op changed by a way, which Target.validate has seen to be possible. A
// nil way changes nothing.
func (op operation) made(w *Way, how string) operation {
	if w == nil {
		return op
	}
	op = op.as(w.Header, how)
	op.url = withQuery(op.url, w.Query)
	op.body, _ = w.apply(op.body)
	op.way = w
	return op
}

// request makes what is sent.
func (op operation) request(keyHeader string) (*http.Request, error) {
	req, err := http.NewRequest(op.method, op.url, strings.NewReader(string(op.body)))
	if err != nil {
		return nil, err
	}
	req.GetBody = nil // nobody is to send it again by himself
	maps.Copy(req.Header, op.header)
	delete(req.Header, keyHeader)
	if op.keys != nil {
		req.Header[keyHeader] = op.keys
	}
	if op.method == http.MethodGet {
		req.Body, req.ContentLength = http.NoBody, 0
		req.Header.Del("Content-Type")
	}
	return req, nil
}

// words says what is sent.
func (p *probe) words(op operation) string {
	path := "/"
	if u, err := url.Parse(op.url); err == nil && u.Path != "" {
		path = u.Path
	}
	text := op.method + " " + path
	switch {
	case len(op.keys) == 0:
		text += ", no key"
	default:
		text += ", key " + p.letter(op.keys)
	}
	if len(op.notes) > 0 {
		text += " (" + strings.Join(op.notes, ", ") + ")"
	}
	return text
}

func (p *probe) letter(keys []string) string {
	var shown []string
	for _, key := range keys {
		bare := strings.Trim(key, `"`)
		switch {
		case p.letters[bare] == "":
			shown = append(shown, "not of the usual form")
		case bare != key:
			shown = append(shown, `"`+p.letters[bare]+`"`)
		default:
			shown = append(shown, p.letters[bare])
		}
	}
	return strings.Join(shown, " and ")
}
