package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// body fills in the template's number.
func body(template string, n int) []byte {
	return []byte(strings.ReplaceAll(template, "{{n}}", strconv.Itoa(n)))
}

// A member is one of a JSON object's, its value as it was written.
type member struct {
	name  string
	value json.RawMessage
}

var errNotObject = errors.New("not a JSON object")

// members reads a JSON object, keeping the order of its members.
func members(text []byte) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); !json.Valid(text) || err != nil || t != json.Delim('{') {
		return nil, errNotObject
	}
	var list []member
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := member{name: name.(string)}
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

// object writes a JSON object.
func object(list []member) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := json.Marshal(m.name) // a string: no error
		b.Write(name)
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// reordered is a JSON object of two members or more, back to front.
func reordered(text []byte) ([]byte, bool) {
	list, err := members(text)
	if err != nil || len(list) < 2 {
		return nil, false
	}
	slices.Reverse(list)
	return object(list), true
}

var integer = regexp.MustCompile(`^-?[0-9]+$`)

// renumbered is a JSON object with its first integer written with a fraction of
// zero: 1 as 1.0.
func renumbered(text []byte) ([]byte, bool) {
	list, err := members(text)
	if err != nil {
		return nil, false
	}
	for i, m := range list {
		if integer.Match(m.value) {
			list[i].value = append(slices.Clone(m.value), ".0"...)
			return object(list), true
		}
	}
	return nil, false
}

// apply sets the way's members in a JSON body. A nil way has none.
func (w *Way) apply(text []byte) ([]byte, error) {
	if w == nil || len(w.Body) == 0 {
		return text, nil
	}
	list, err := members(text)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(w.Body)) {
		list = set(list, member{name, w.Body[name]})
	}
	return object(list), nil
}

func set(list []member, m member) []member {
	for i := range list {
		if list[i].name == m.name {
			list[i] = m
			return list
		}
	}
	return append(list, m)
}

// withQuery sets parameters in an address. The address has been parsed before.
func withQuery(address string, set url.Values) string {
	if len(set) == 0 {
		return address
	}
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	q := u.Query()
	maps.Copy(q, set)
	u.RawQuery = q.Encode()
	return u.String()
}

// below is an address one step further down.
func below(address, step string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.JoinPath(step).String()
}
