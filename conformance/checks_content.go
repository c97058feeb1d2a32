package conformance

import (
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// contentChecks look at answers that are harder to keep than a short text.
var contentChecks = []check{
	{
		id:    "content.large",
		about: "a large answer, twice",
		want:  "the same bytes",
		draft: must(draft26), stripe: must(stripePage), acp: must(acp63),
		needs:    []need{large},
		requests: 2,
		run: func(p *probe) {
			const enough = 64 << 10
			op := p.operation().made(p.target.Ways.Large, "large")
			first := p.perform(op)
			if len(first.Body) < enough {
				p.skip("the answer has %d bytes: want %d or more", len(first.Body), enough)
			}
			p.wantSame(first, p.send(op))
		},
	},
	{
		id:    "content.binary",
		about: "an answer that is not text, twice",
		want:  "the same bytes",
		draft: must(draft26), stripe: must(stripePage), acp: must(acp63),
		needs:    []need{binary},
		requests: 2,
		run: func(p *probe) {
			op := p.operation().made(p.target.Ways.Binary, "binary")
			first := p.perform(op)
			if utf8.Valid(first.Body) {
				p.skip("the answer is UTF-8: want bytes that are not")
			}
			p.wantSame(first, p.send(op))
		},
	},
	{
		id:    "content.gzip",
		about: "a compressed answer, twice",
		want:  "the same bytes and Content-Encoding",
		draft: must(draft26), stripe: must(stripePage), acp: must(acp63),
		requests: 2,
		run: func(p *probe) {
			op := p.operation().as(http.Header{"Accept-Encoding": {"gzip"}}, "gzip accepted")
			first := p.perform(op)
			if first.Header.Get("Content-Encoding") != "gzip" {
				p.skip("the answer is not compressed")
			}
			a := p.send(op)
			if came := a.Header.Get("Content-Encoding"); came != "gzip" {
				p.fail("the replay has the Content-Encoding %q: want gzip", came)
			}
			p.wantSame(first, a)
		},
	},
	{
		id:    "content.set-cookie",
		about: "an answer that sets a cookie, twice",
		want:  "no Set-Cookie in the replay",
		draft: should(own), stripe: should(own), acp: should(own),
		requests: 2,
		run: func(p *probe) {
			op := p.operation().made(p.target.Ways.Cookie, "sets a cookie")
			first := p.perform(op)
			if first.Header.Get("Set-Cookie") == "" {
				p.skip("the answer has no Set-Cookie field (Target.Ways.Cookie; -cookie)")
			}
			if p.send(op).Header.Get("Set-Cookie") != "" {
				p.fail("the replay sets the first caller's cookie")
			}
		},
	},
	{
		id:    "content.hop-by-hop",
		about: "an answer with a field for its connection alone, twice",
		want:  "the field is not in the replay",
		draft: should(http761), stripe: should(http761), acp: should(http761),
		needs:    []need{hopByHop},
		requests: 2,
		run: func(p *probe) {
			op := p.operation().made(p.target.Ways.HopByHop, "hop-by-hop")
			first := p.perform(op)
			own := connectionFields(first.Header)
			if len(own) == 0 {
				p.skip("the answer has no field for its connection alone")
			}
			a := p.send(op)
			for _, name := range own {
				if a.Header.Get(name) != "" {
					p.fail("the replay has the first answer's %s", name)
				}
			}
		},
	},
}

// connectionFields are the fields of h that are for its connection alone: those
// that its Connection field names, and those that RFC 9110 names. Connection
// itself and Upgrade are left out, since a server may have them in every answer.
func connectionFields(h http.Header) []string {
	names := []string{"Keep-Alive", "Proxy-Connection"}
	for _, line := range h.Values("Connection") {
		for name := range strings.SplitSeq(line, ",") {
			names = append(names, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "Upgrade" || h.Get(name) == "" })
}
