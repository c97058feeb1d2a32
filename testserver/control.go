package testserver

import (
	"net/http"
	"time"
)

// controlHandler shows and steers the server over HTTP, for clients that are not
// written in Go. No fault strikes here, and nothing of it is logged.
func (s *Server) controlHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_/requests", s.showRequests)
	mux.HandleFunc("GET /_/charges", s.showCharges)
	mux.HandleFunc("POST /_/advance", s.advance)
	return mux
}

func (s *Server) showRequests(w http.ResponseWriter, _ *http.Request) {
	type shown struct {
		Method string      `json:"method"`
		Path   string      `json:"path"`
		Key    string      `json:"key"`
		Header http.Header `json:"header"`
		Body   string      `json:"body"`
		At     time.Time   `json:"at"`
	}
	list := []shown{}
	for _, r := range s.Requests() {
		list = append(list, shown{r.Method, r.Path, r.Key, r.Header, string(r.Body), r.At})
	}
	writeJSON(w, http.StatusOK, listOf[shown]{list})
}

func (s *Server) showCharges(w http.ResponseWriter, _ *http.Request) {
	type shown struct {
		Charge
		Key        string `json:"key"`
		Executions int    `json:"executions"`
	}
	list := []shown{}
	for _, c := range s.Charges() {
		list = append(list, shown{c, c.Key, s.Executions(c.Key)})
	}
	writeJSON(w, http.StatusOK, listOf[shown]{list})
}

// advance is POST /_/advance?by=25h.
func (s *Server) advance(w http.ResponseWriter, r *http.Request) {
	d, err := time.ParseDuration(r.URL.Query().Get("by"))
	if err != nil {
		durationInvalid.write(w, "want a duration, as in /_/advance?by=25h")
		return
	}
	s.Advance(d)
	writeJSON(w, http.StatusOK, struct {
		Now time.Time `json:"now"`
	}{s.now()})
}
