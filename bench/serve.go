package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	_ "net/http/pprof"
	"os"
	"runtime"
	"time"

	"berth/internal/api"
	"berth/internal/server"
	"berth/internal/state"
	"berth/op"

	"golang.org/x/sync/errgroup"
)

// serve is the server process: a server as the agent command runs it, and an
// address that answers how much memory and log it uses.
func serve(args []string) error {
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	dir := flags.String("dir", "", "data folder")
	access := flags.Bool("acl", false, "tokens decide who may do what")
	flags.Parse(args)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	var lns [3]net.Listener // HTTP, RPC, control
	for i := range lns {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		lns[i] = ln
	}
	s, err := server.New(server.Config{
		Region: "global", Datacenter: "dc1", DataDir: *dir, RPC: lns[1], Logger: log, MaxConns: 1 << 20, ACL: *access,
		Self:   func() op.AgentSelf { return op.AgentSelf{} },
		Health: func() op.AgentHealth { return op.AgentHealth{Server: &op.Health{Ok: true}} },
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() { io.Copy(io.Discard, os.Stdin); stop() }() // ends with its parent
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.Run(ctx) })
	g.Go(func() error { return api.Serve(ctx, lns[0], s.Handler(), api.Limits{}, log) })
	g.Go(func() error { return api.Serve(ctx, lns[2], control(s), api.Limits{}, log) })
	// The parent waits for the line with the addresses and then expects a
	// leader.
	for !s.Leads() && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	fmt.Println(lns[0].Addr(), lns[1].Addr(), lns[2].Addr())
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// control returns the handler for the benchmark's own questions: profiles,
// bytes of the log, and the heap after a collection.
func control(s *server.Server) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/debug/", http.DefaultServeMux)
	mux.HandleFunc("/figures", func(w http.ResponseWriter, r *http.Request) {
		st := s.Stats()
		json.NewEncoder(w).Encode(map[string]float64{"LogAppended": float64(st.Appended), "LogOnDisk": float64(st.OnDisk)})
	})
	mux.HandleFunc("/collected", func(w http.ResponseWriter, r *http.Request) {
		snap := s.Store().Snapshot()
		var saved bytes.Buffer
		if err := snap.Save(&saved); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		size := saved.Len()
		saved = bytes.Buffer{}
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		json.NewEncoder(w).Encode(map[string]float64{
			"Heap": float64(m.HeapAlloc), "Snapshot": float64(size), "Allocs": float64(snap.Count(state.Allocs)),
		})
	})
	return mux
}
