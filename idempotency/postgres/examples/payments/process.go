package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
)

// A process serves the API, and is started again whenever it dies. Its listener outlives it.
type process struct {
	url      string
	client   http.Client
	listener *os.File
	args     []string
	env      []string

	mu      sync.Mutex
	cmd     *exec.Cmd
	stopped bool
	ended   sync.WaitGroup
}

func startProcess(schema, processorURL string) (*process, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	file, err := listener.(*net.TCPListener).File()
	if err != nil {
		return nil, err
	}
	p := &process{url: "http://" + listener.Addr().String(), listener: file, args: []string{schema},
		env: append(os.Environ(), "PROCESSOR_URL="+processorURL), client: http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	if err := p.start(); err != nil {
		return nil, err
	}
	p.ended.Go(p.supervise)
	return p, nil
}

func (p *process) start() error {
	p.cmd = exec.Command(os.Args[0], p.args...)
	p.cmd.Env = p.env
	p.cmd.ExtraFiles = []*os.File{p.listener}
	p.cmd.Stderr = os.Stderr
	return p.cmd.Start()
}

func (p *process) supervise() {
	for {
		p.cmd.Wait()
		p.mu.Lock()
		if p.stopped || p.start() != nil {
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
	}
}

func (p *process) stop() {
	p.mu.Lock()
	p.stopped = true
	p.cmd.Process.Kill()
	p.mu.Unlock()
	p.ended.Wait()
	p.listener.Close()
}

// pass has the process handle r, also if its client has given up. The process dies if f says so.
func (p *process) pass(r *http.Request, body []byte, f fault) (*http.Response, error) {
	req, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), r.Method, p.url+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = r.Header.Clone()
	req.Header.Set(faultHeader, string(f))
	return p.client.Do(req)
}
