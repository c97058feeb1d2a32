package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/saferetry/saferetry/testserver"
)

// serve runs the reference server until ctx is done.
func serve(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:8080", "`address` to listen on; port 0 takes a free one")
	retention := durationFlag(flags, "retention", 24*time.Hour, 1, "how long an operation is remembered, a `duration`")
	lease := durationFlag(flags, "lease", time.Minute, 1, "how long the claim of a crashed request lingers, a `duration`")
	latency := durationFlag(flags, "latency", 0, 0, "how long the handler takes, a `duration`")
	tls := flags.Bool("tls", false, "serve HTTPS, under a certificate that nobody else trusts")
	http2 := flags.Bool("http2", false, "serve HTTP/2; implies -tls")
	if code, goOn := parse(flags, args, stdout, stderr); !goOn {
		return code
	}
	if *addr == "" {
		return fail(stderr, "serve", errors.New(`invalid value "" for flag -addr: want an address, such as 127.0.0.1:8080`))
	}
	opts := []testserver.Option{
		testserver.WithAddr(*addr),
		testserver.WithRetention(retention.Duration),
		testserver.WithLease(lease.Duration),
		testserver.WithLatency(latency.Duration),
	}
	if *tls {
		opts = append(opts, testserver.WithTLS())
	}
	if *http2 {
		opts = append(opts, testserver.WithHTTP2())
	}
	server, err := testserver.Start(opts...)
	if err != nil {
		return fail(stderr, "serve", err)
	}
	defer server.Close()
	fmt.Fprintln(stdout, "serving", server.URL)
	<-ctx.Done()
	return ok
}
