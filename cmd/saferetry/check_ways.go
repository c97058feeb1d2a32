package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/saferetry/saferetry/conformance"
)

// wayFlags are the flags that say how to make an endpoint do something.
type wayFlags struct {
	slow, failing, limited, refused, large, binary, cookie, hop lines
}

// wayHelp says how a way is written.
const wayHelp = `; "Name: value" sets a header field, name=value a member of the JSON body, ?name=value a parameter, and always says ` +
	`that it does so anyway`

func (w *wayFlags) define(flags *flag.FlagSet) {
	flags.Var(&w.slow, "slow", "a `way` to make the endpoint slow, by half a second or more"+wayHelp)
	flags.Var(&w.failing, "error", "a `way` to make it begin and answer 5xx")
	flags.Var(&w.limited, "limited", "a `way` to be answered 429")
	flags.Var(&w.refused, "refused", "a `way` to be answered 401 or 403")
	flags.Var(&w.large, "large", "a `way` to get an answer of 64 KiB or more")
	flags.Var(&w.binary, "binary", "a `way` to get an answer that is not UTF-8")
	flags.Var(&w.cookie, "cookie", "a `way` to get an answer with Set-Cookie")
	flags.Var(&w.hop, "hop", "a `way` to get an answer with a hop-by-hop field, such as Keep-Alive")
}

// read reads them all, for the bodies that they are to change.
func (w *wayFlags) read(req request, otherBody string) (conformance.Ways, error) {
	var ways conformance.Ways
	for _, f := range []struct {
		flag  string
		texts lines
		way   **conformance.Way
	}{
		{"slow", w.slow, &ways.Slow}, {"error", w.failing, &ways.Error}, {"limited", w.limited, &ways.Limited},
		{"refused", w.refused, &ways.Refused}, {"large", w.large, &ways.Large}, {"binary", w.binary, &ways.Binary},
		{"cookie", w.cookie, &ways.Cookie}, {"hop", w.hop, &ways.HopByHop},
	} {
		if len(f.texts) == 0 {
			continue
		}
		way, err := readWay(f.flag, f.texts)
		if err != nil {
			return ways, err
		}
		if len(way.Body) > 0 && !(isObject(string(req.body)) && (otherBody == "" || isObject(otherBody))) {
			return ways, fmt.Errorf("flag -%s: name=value sets a member of a JSON body: want one in -d", f.flag)
		}
		*f.way = way
	}
	return ways, nil
}

func isObject(template string) bool {
	var v map[string]json.RawMessage
	return json.Unmarshal([]byte(strings.ReplaceAll(template, "{{n}}", "1")), &v) == nil && v != nil
}

// readWay reads one way, which may be written in parts.
func readWay(flag string, texts []string) (*conformance.Way, error) {
	way := &conformance.Way{Header: make(http.Header), Query: make(url.Values), Body: make(map[string]json.RawMessage)}
	if slices.Equal(texts, []string{"always"}) {
		return way, nil
	}
	for _, text := range texts {
		query, isQuery := strings.CutPrefix(text, "?")
		name, value, isMember := strings.Cut(text, "=")
		colon := strings.IndexByte(text, ':')
		switch {
		case isQuery:
			q, err := url.ParseQuery(query)
			if err != nil || len(q) == 0 {
				return nil, wrongWay(flag)
			}
			for name, values := range q {
				way.Query[name] = values
			}
		case colon > 0 && (!isMember || colon < len(name)):
			h, err := readHeader(flag, []string{text})
			if err != nil {
				return nil, err
			}
			for name, values := range h {
				way.Header[name] = append(way.Header[name], values...)
			}
		case isMember && name != "":
			way.Body[name] = asJSON(value)
		default:
			return nil, wrongWay(flag)
		}
	}
	return way, nil
}

func wrongWay(flag string) error {
	return fmt.Errorf(`flag -%s: want "Name: value", name=value, ?name=value, or always`, flag)
}

// asJSON is a value as it is, if it is JSON, else as a string.
func asJSON(value string) json.RawMessage {
	if json.Valid([]byte(value)) {
		return json.RawMessage(value)
	}
	text, _ := json.Marshal(value) // a string: no error
	return text
}
