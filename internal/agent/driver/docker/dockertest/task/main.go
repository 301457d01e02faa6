// Command task is what containers of tests run: its first argument says what it
// does. An image that has nothing else needs no shell.
package main

import (
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	args := append(os.Args[1:], "", "", "")
	switch args[0] {
	case "run": // until it is asked to end
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
		fmt.Println("running")
		s := <-ended
		fmt.Println("ended by", s)
	case "deaf": // until it is killed
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
		fmt.Println("deaf")
		time.Sleep(time.Hour)
	case "exit":
		code, _ := strconv.Atoi(args[1])
		os.Exit(code)
	case "print":
		fmt.Print(args[1])
		fmt.Fprint(os.Stderr, args[2])
	case "count": // lines, with a pause after each; then it ends, with "stay" when it is asked to
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGTERM)
		n, _ := strconv.Atoi(args[1])
		pause, _ := time.ParseDuration(args[2])
		for i := range n {
			fmt.Println("line", i)
			fmt.Fprintln(os.Stderr, "complaint", i)
			time.Sleep(pause)
		}
		if args[3] == "stay" {
			<-asked
		}
	case "serve": // HTTP on a port
		message := args[2]
		handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, message, os.Getenv("VERSION")) })
		fmt.Println("serving", args[1])
		fmt.Fprintln(os.Stderr, http.ListenAndServe(":"+args[1], handler))
		os.Exit(1)
	case "eat": // memory, until none is left
		var all [][]byte
		for {
			b := make([]byte, 1<<20)
			for i := range b {
				b[i] = 1
			}
			all = append(all, b)
			runtime.KeepAlive(all)
		}
	case "env":
		fmt.Println(strings.Join(os.Environ(), "\n"))
	case "cat": // files, with their permission to be written
		for _, name := range os.Args[2:] {
			b, err := os.ReadFile(name)
			fmt.Printf("%s: %s %v\n", name, strings.TrimSpace(string(b)), err)
		}
	case "write":
		if err := os.WriteFile(args[1], []byte(args[2]), 0o644); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	case "echo": // stdin
		b := make([]byte, 1000)
		n, _ := os.Stdin.Read(b)
		fmt.Print("got ", string(b[:n]))
		fmt.Fprint(os.Stderr, "bye")
		os.Exit(3)
	default:
		fmt.Fprintln(os.Stderr, "unknown:", os.Args)
		os.Exit(2)
	}
}
