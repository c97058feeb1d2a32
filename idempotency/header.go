package idempotency

import (
	"iter"
	"net/http"
	"slices"
	"strings"
)

// notReplayed are the fields of an answer that are meant for its first receiver, or for one connection, alone.
var notReplayed = []string{
	"Set-Cookie", "Www-Authenticate", "Date",
	// hop-by-hop: RFC 9110, section 7.6.1, and RFC 2616, section 13.5.1
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade",
}

// replayable returns header without the fields that are not to be replayed.
func replayable(header http.Header, marker string) http.Header {
	hopByHop := slices.Collect(names(header["Connection"]))
	kept := make(http.Header, len(header))
	for field, values := range header {
		name := http.CanonicalHeaderKey(field)
		if name != marker && !slices.Contains(notReplayed, name) && !slices.Contains(hopByHop, name) {
			kept[field] = values
		}
	}
	return kept
}

// changes has a copy of the fields of header that are not as they were found. Those taken away have no values.
func changes(found, header http.Header) http.Header {
	changed := make(http.Header, len(header))
	for name, values := range header {
		if was, ok := found[name]; !ok || !slices.Equal(was, values) {
			changed[name] = slices.Clone(values)
		}
	}
	for name := range found {
		if _, ok := header[name]; !ok {
			changed[name] = nil
		}
	}
	return changed
}

// trailers returns the trailers in header, each under http.TrailerPrefix: those set there, and those announced.
func trailers(announced []string, header http.Header) http.Header {
	var found http.Header
	set := func(name string, values []string) {
		if found == nil {
			found = make(http.Header)
		}
		found[name] = values
	}
	for name, values := range header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			set(name, values)
		}
	}
	for name := range names(announced) {
		if values, ok := header[name]; ok {
			set(http.TrailerPrefix+name, values)
		}
	}
	return found
}

// names goes through the field names in lines, each a list with commas.
func names(lines []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, line := range lines {
			for name := range strings.SplitSeq(line, ",") {
				if name = strings.Trim(name, " \t"); name != "" && !yield(http.CanonicalHeaderKey(name)) {
					return
				}
			}
		}
	}
}
