package idempotency

import (
	"net/http"
	"slices"
	"strings"
)

// notReplayed are the fields of an answer that are meant for its first receiver or connection alone.
var notReplayed = []string{
	"Set-Cookie", "Www-Authenticate", "Date",
	// hop-by-hop, RFC 9110 section 7.6.1 and RFC 2616 section 13.5.1
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade",
}

// replayable returns header without the fields that are not to be replayed.
func replayable(header http.Header, marker string) http.Header {
	var hopByHop []string
	for _, line := range header["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			hopByHop = append(hopByHop, http.CanonicalHeaderKey(strings.Trim(name, " \t")))
		}
	}
	kept := make(http.Header, len(header))
	for name, values := range header {
		canonical := http.CanonicalHeaderKey(name)
		if canonical != marker && !slices.Contains(notReplayed, canonical) && !slices.Contains(hopByHop, canonical) {
			kept[name] = values
		}
	}
	return kept
}

// trailers returns the trailers a handler set, each under http.TrailerPrefix: those it announced in sent, and those that
// have the prefix.
func trailers(sent, header http.Header) http.Header {
	found := make(http.Header)
	for name, values := range header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			found[name] = values
		}
	}
	for _, line := range sent["Trailer"] {
		for name := range strings.SplitSeq(line, ",") {
			name = http.CanonicalHeaderKey(strings.Trim(name, " \t"))
			if values, ok := header[name]; ok && name != "" {
				found[http.TrailerPrefix+name] = values
			}
		}
	}
	return found
}
