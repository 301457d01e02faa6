// Command server answers HTTP requests at the port labelled http of its task
// with the address of its allocation.
package main

import (
	"fmt"
	"net/http"
	"os"
	"time"
)

func main() {
	s := &http.Server{Addr: ":" + os.Getenv("NOMAD_PORT_http"), ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(answer)}
	fmt.Fprintln(os.Stderr, s.ListenAndServe())
	os.Exit(1)
}

func answer(w http.ResponseWriter, _ *http.Request) {
	name, _ := os.Hostname()
	hosts, _ := os.ReadFile("/etc/hosts")
	resolv, _ := os.ReadFile("/etc/resolv.conf")
	fmt.Fprintf(w, "own address %s\nhost name %s\n%s%s", os.Getenv("NOMAD_ALLOC_ADDR_http"), name, hosts, resolv)
}
