package main

import (
	"bytes"
	"encoding/json"
	"regexp"
)

var number = regexp.MustCompile(`[0-9]+`)

// changedBody is another body of the same form: with another number, where there
// is one, or with a member more.
func changedBody(body []byte) []byte {
	isJSON := json.Valid(body)
	for _, at := range number.FindAllIndex(body, -1) {
		changed := bytes.Clone(body)
		if last := at[1] - 1; changed[last] == '9' {
			changed[last] = '8'
		} else {
			changed[last]++
		}
		if !isJSON || json.Valid(changed) && !inString(body, at[0]) {
			return changed
		}
	}
	if open := bytes.IndexByte(body, '{'); isJSON && bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		more := `"changed":true`
		if len(bytes.TrimSpace(body[open+1:])) > 1 {
			more += ","
		}
		return bytes.Join([][]byte{body[:open+1], body[open+1:]}, []byte(more))
	}
	return append(bytes.Clone(body), ' ')
}

// inString reports whether what is at i is inside a JSON string.
func inString(body []byte, i int) bool {
	inside := false
	for j := 0; j < i; j++ {
		switch {
		case body[j] == '\\' && inside:
			j++
		case body[j] == '"':
			inside = !inside
		}
	}
	return inside
}
