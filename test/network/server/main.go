// Command server answers HTTP requests at the port labelled http of its task
// with the address of its allocation. As "server relay PORT URL" it answers at
// another port with what the URL says.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	port, handler := os.Getenv("NOMAD_PORT_http"), answer
	if len(os.Args) == 4 && os.Args[1] == "relay" {
		port, handler = os.Args[2], relay
	}
	s := &http.Server{Addr: ":" + port, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(handler)}
	fmt.Fprintln(os.Stderr, s.ListenAndServe())
	os.Exit(1)
}

func relay(w http.ResponseWriter, r *http.Request) {
	answer, err := http.Get(os.Args[3])
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	_, _ = io.Copy(w, answer.Body)
}

func answer(w http.ResponseWriter, _ *http.Request) {
	name, _ := os.Hostname()
	hosts, _ := os.ReadFile("/etc/hosts")
	resolv, _ := os.ReadFile("/etc/resolv.conf")
	fmt.Fprintf(w, "own address %s\nhost name %s\n%s%s", os.Getenv("NOMAD_ALLOC_ADDR_http"), name, hosts, resolv)
}
