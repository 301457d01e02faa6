// Command hello is the service of the examples: it greets over HTTP at the
// address that Berth gave it, or at LISTEN. If VISITS names a file, it counts the
// requests there.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
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
	addr := cmp.Or(os.Getenv("LISTEN"), os.Getenv("NOMAD_ADDR_http"))
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
	if file := os.Getenv("VISITS"); file != "" {
		n, err := count(file)
		if err != nil {
			fmt.Fprintln(os.Stderr, "hello:", err)
		}
		fmt.Fprintf(w, "visit %d\n", n)
	}
	fmt.Println(r.Method, r.URL.Path)
}

// visits lets one request at a time count.
var visits sync.Mutex

// count adds one to the number in a file, and returns it.
func count(file string) (n int, err error) {
	visits.Lock()
	defer visits.Unlock()
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	if len(b) > 0 {
		if n, err = strconv.Atoi(strings.TrimSpace(string(b))); err != nil {
			return 0, err
		}
	}
	n++
	return n, os.WriteFile(file, []byte(strconv.Itoa(n)+"\n"), 0o644)
}
