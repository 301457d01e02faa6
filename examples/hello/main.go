// Command hello is the service of the examples: it greets over HTTP at the
// address that Berth gave it.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "hello:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	addr := os.Getenv("NOMAD_ADDR_http")
	if addr == "" {
		return errors.New("NOMAD_ADDR_http is not set: this program wants a port that is labelled http")
	}
	srv := &http.Server{Addr: addr, ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(greet)}
	ended := make(chan error, 1)
	go func() { ended <- srv.ListenAndServe() }()
	fmt.Println("serving at", addr)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	fmt.Println("asked to end")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return srv.Shutdown(ctx)
}

func greet(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s from %s, process %d\n", os.Getenv("GREETING"), os.Getenv("NOMAD_ALLOC_NAME"), os.Getpid())
	fmt.Println(r.Method, r.URL.Path)
}
