package daemon

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/internal/config"
	"berth/internal/eventually"

	nomad "github.com/hashicorp/nomad/api"
)

// started is an agent with a server and a node, in this process.
type started struct {
	*Daemon
	api  *nomad.Client
	file string // its configuration
}

// newAgent returns an agent with a configuration, and the file that has it.
func newAgent(t *testing.T, text string) (d *Daemon, file string) {
	t.Helper()
	dir := t.TempDir()
	file = filepath.Join(dir, "a.hcl")
	write(t, file, text)
	over := config.Overrides{Dev: true, Flags: []config.Flag{
		{Name: "-data-dir", Key: "data_dir", Value: filepath.Join(dir, "data")}, {Name: "", Key: "ports.http", Value: 0}, {Name: "", Key: "ports.rpc", Value: 0},
		{Name: "", Key: "log_file", Value: filepath.Join(dir, "log", "a.log")},
	}}
	conf, err := config.Load([]string{file}, over)
	if err != nil {
		t.Fatal(err)
	}
	log, err := OpenLog(conf, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	over.Again = conf
	d, err = New(Config{Config: conf, Log: log.Logger, Output: log, Version: "test", NomadVersion: "2.0.5", Reload: func() (*config.Config, error) {
		return config.Load([]string{file}, over)
	}})
	if err != nil {
		t.Fatal(err)
	}
	return d, file
}

// startAgent starts an agent with a configuration.
func startAgent(t *testing.T, text string) *started {
	t.Helper()
	d, file := newAgent(t, text)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	c, err := nomad.NewClient(&nomad.Config{Address: d.HTTPAddr()})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(eventually.Limit); ; time.Sleep(5 * time.Millisecond) {
		if n, _, err := c.Nodes().Info(d.NodeID().String(), nil); err == nil && n.Status == "ready" {
			return &started{d, c, file}
		}
		if time.Now().After(deadline) {
			t.Fatal("the node is not ready")
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// get asks for a path, and returns status, headers and text.
func (s *started) get(t *testing.T, path string) (int, http.Header, string) {
	t.Helper()
	resp, err := http.Get(s.HTTPAddr() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

// What Nomad's client asks an agent about itself is answered, for the agent that is
// asked and for its node and server by name. A reload changes who may ask, the
// level of the log and the headers of answers.
func TestAgentLooksIntoItself(t *testing.T) {
	t.Setenv("SOME_SECRET", "canary")
	const settings = "name = \"n1\"\nclient { network_interface = \"lo\" }\n"
	s := startAgent(t, settings)
	a := s.api.Agent()
	if _, err := a.Lookup("goroutine", nomad.PprofOptions{}, nil); err == nil || !strings.Contains(err.Error(), "enable_debug must be set") {
		t.Errorf("a profile without enable_debug: %v", err)
	}
	if code, _, _ := s.get(t, "/debug/pprof/"); code != http.StatusNotFound {
		t.Errorf("/debug/pprof/ without enable_debug: %d", code)
	}
	write(t, s.file, settings+"enable_debug = true\nlog_level = \"debug\"\nhttp_api_response_headers { X-Test = \"yes\" }")
	if err := a.Reload(nil, nil); err != nil {
		t.Fatal(err)
	}
	if code, h, text := s.get(t, "/debug/pprof/"); code != http.StatusOK || h.Get("X-Test") != "yes" || !strings.Contains(text, "goroutine") {
		t.Errorf("/debug/pprof/: %d %v", code, h)
	}
	write(t, s.file, "colour = \"red\"")
	if err := a.Reload(nil, nil); err == nil || !strings.Contains(err.Error(), "colour: unknown key") {
		t.Errorf("a configuration that is none: %v", err)
	}
	for _, to := range []nomad.PprofOptions{{}, {NodeID: s.NodeID().String()}, {ServerID: "leader"}, {ServerID: "n1"}} {
		to.Debug = 1
		if b, err := a.Lookup("goroutine", to, nil); err != nil || !strings.Contains(string(b), "goroutine profile") {
			t.Errorf("%+v: %s %v", to, b, err)
		}
		h, err := a.Host(to.ServerID, to.NodeID, nil)
		if err != nil || h.AgentID != s.NodeID().String() || h.HostData.OS == "" || h.HostData.Environment["SOME_SECRET"] != "<redacted>" {
			t.Errorf("%+v: %+v %v", to, h, err)
		}
	}
	if b, err := a.Trace(nomad.PprofOptions{Seconds: 1}, nil); err != nil || len(b) == 0 {
		t.Errorf("a trace: %d bytes, %v", len(b), err)
	}
	if _, err := a.Lookup("none", nomad.PprofOptions{}, nil); err == nil || !strings.Contains(err.Error(), `unknown profile "none": want allocs`) {
		t.Errorf("an unknown profile: %v", err)
	}
	if _, err := a.Lookup("heap", nomad.PprofOptions{ServerID: "s9"}, nil); err == nil || !strings.Contains(err.Error(), `unknown Nomad server s9`) {
		t.Errorf("an unknown server: %v", err)
	}
}

// The log is followed as frames and as lines, here and at the node, and what is in
// its file can be exported.
func TestMonitor(t *testing.T) {
	s := startAgent(t, "client { network_interface = \"lo\" }")
	for _, params := range []map[string]string{{"log_level": "debug"}, {"log_level": "warn", "log_json": "true", "node_id": s.NodeID().String()}, {"server_id": "leader", "log_include_location": "true"}} {
		stop := make(chan struct{})
		frames, errs := s.api.Agent().Monitor(stop, &nomad.QueryOptions{Params: params})
		if frames == nil {
			t.Fatal(<-errs)
		}
		s.log.Error("a line to follow", "secret", "none")
		text := ""
		for f := range frames {
			if text += string(f.Data); strings.Contains(text, "a line to follow") {
				break
			}
		}
		if json := strings.Contains(text, `"msg":"a line to follow"`); json != (params["log_json"] != "") || strings.Contains(text, "source=") != (params["log_include_location"] != "") {
			t.Errorf("%v: %s", params, text)
		}
		close(stop)
	}
	if code, _, text := s.get(t, "/v1/agent/monitor?log_level=loud"); code != http.StatusBadRequest || !strings.Contains(text, `log_level: unknown log level "loud"`) {
		t.Errorf("an unknown level: %d %s", code, text)
	}
	frames, errs := s.api.Agent().MonitorExport(nil, &nomad.QueryOptions{Params: map[string]string{"on_disk": "true"}})
	if frames == nil {
		t.Fatal(<-errs)
	}
	text := ""
	for f := range frames {
		text += string(f.Data)
	}
	if strings.Count(text, "a line to follow") != 3 {
		t.Errorf("the log file: %s", text)
	}
	if code, _, text := s.get(t, "/v1/agent/monitor/export?service_name=nomad"); code != http.StatusBadRequest || !strings.Contains(text, "use journalctl") {
		t.Errorf("the journal: %d %s", code, text)
	}
}

// Metrics reach servers of StatsD, statsite and Datadog, with the names that the
// configuration wants, and those that it does not want are nowhere.
func TestMetricsAreSent(t *testing.T) {
	statsd, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer statsd.Close()
	datadog, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer datadog.Close()
	statsite, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer statsite.Close()
	s := startAgent(t, "name = \"n1\"\nclient { network_interface = \"lo\" }\n"+`telemetry {
  collection_interval = "100ms"
  statsd_address = "`+statsd.LocalAddr().String()+`"
  statsite_address = "`+statsite.Addr().String()+`"
  datadog_address = "`+datadog.LocalAddr().String()+`"
  datadog_tags = ["env:test"]
  use_node_name = true
  prefix_filter = ["-nomad.raft", "+nomad.raft.leader"]
}`)
	packets := func(from net.PacketConn) func() string {
		return func() string {
			b := make([]byte, 64<<10)
			n, _, err := from.ReadFrom(b)
			if err != nil {
				t.Fatal(err)
			}
			return string(b[:n])
		}
	}
	conn, err := statsite.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream := func() string {
		b := make([]byte, 4096)
		n, err := conn.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	for want, next := range map[string]func() string{
		"nomad.n1.raft.leader:1|g": packets(statsd), "nomad.raft.leader:1|g|#env:test,host:n1\n": packets(datadog), "nomad.n1.raft.leader:1|g\n": stream,
	} {
		all := ""
		for !strings.Contains(all, want) {
			all += next()
		}
		if strings.Contains(all, "raft.term") || !strings.Contains(all, "state.rows") {
			t.Errorf("the metrics that are filtered:\n%s", all)
		}
	}
	for _, format := range []string{"", "?format=prometheus"} {
		_, _, text := s.get(t, "/v1/metrics"+format)
		if strings.Contains(text, "raft_term") || strings.Contains(text, "raft.term") || !strings.Contains(text, "nomad_raft_leader") && !strings.Contains(text, "nomad.raft.leader") {
			t.Errorf("%s:\n%.3000s", format, text)
		}
	}
}

// systemd is told when the agent is ready, reloads and stops.
func TestNotify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	at, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	var seen []string
	read := func() {
		b := make([]byte, 100)
		n, err := at.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, string(b[:n]))
	}
	t.Run("agent", func(t *testing.T) {
		s := startAgent(t, "client { network_interface = \"lo\" }")
		read()
		if err := s.Reload(); err != nil {
			t.Error(err)
		}
		read()
		read()
	})
	read()
	if got := strings.Join(seen, " "); got != "READY=1 RELOADING=1 READY=1 STOPPING=1" {
		t.Error(got)
	}
}
