package main

import (
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"
)

// A fault is what goes wrong with one request.
type fault string

const (
	none             fault = ""
	neverSaw         fault = "the connection is closed, and no process sees the request"
	crashBeforeWrite fault = "the process dies when the processor has charged and nothing is written"
	crashAfterWrite  fault = "the process dies when everything is written, before it answers"
	dropResponse     fault = "the answer is cut in its body"
	unavailable      fault = "503"
	tooMany          fault = "429"
	stall            fault = "the request is handled after the client has given up"
)

// faultHeader tells a process to die.
const faultHeader = "X-Fault"

// A front is the load balancer: it passes requests on to two processes in turn, and fails as it was told.
type front struct {
	url       string
	server    *httptest.Server
	processes [2]*process

	mu     sync.Mutex
	faults []fault
	turn   int
}

func startFront(schema, processorURL string) (*front, error) {
	f := &front{}
	for i := range f.processes {
		p, err := startProcess(schema, processorURL)
		if err != nil {
			return nil, err
		}
		f.processes[i] = p
	}
	f.server = httptest.NewUnstartedServer(f)
	f.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	f.server.Start()
	f.url = f.server.URL
	return f, nil
}

func (f *front) close() {
	f.server.Close()
	for _, p := range f.processes {
		p.stop()
	}
}

// script has the next requests go wrong.
func (f *front) script(faults ...fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, faults...)
}

// next returns the next request's fault and process.
func (f *front) next() (fault, *process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turn++
	p := f.processes[f.turn%2]
	if len(f.faults) == 0 {
		return none, p
	}
	fault := f.faults[0]
	f.faults = f.faults[1:]
	return fault, p
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault, p := f.next()
	body, err := io.ReadAll(r.Body)
	if err != nil || fault == neverSaw {
		panic(http.ErrAbortHandler) // closes the connection
	}
	switch fault {
	case unavailable:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case tooMany:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	case stall:
		time.Sleep(700 * time.Millisecond)
	}
	resp, err := p.pass(r, body, fault)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	if fault == dropResponse {
		io.CopyN(w, resp.Body, 10)
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	io.Copy(w, resp.Body)
}
