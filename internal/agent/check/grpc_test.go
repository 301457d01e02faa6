package check

import (
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"berth"
)

// serveGRPC serves the health service of gRPC's own library and returns its
// address.
func serveGRPC(t *testing.T, o ...grpc.ServerOption) string {
	t.Helper()
	h := health.NewServer()
	h.SetServingStatus("web", healthpb.HealthCheckResponse_SERVING)
	h.SetServingStatus("ill", healthpb.HealthCheckResponse_NOT_SERVING)
	s := grpc.NewServer(o...)
	healthpb.RegisterHealthServer(s, h)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

func TestChecksAskTheHealthServiceOfGRPC(t *testing.T) {
	secure := httptest.NewUnstartedServer(nil)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	certificate := secure.TLS.Certificates[0]
	secure.Close()
	plain := serveGRPC(t)
	encrypted := serveGRPC(t, grpc.Creds(credentials.NewServerTLSFromCert(&certificate)))
	bare := grpc.NewServer() // without a health service
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = bare.Serve(ln) }()
	defer bare.Stop()
	web := httptest.NewServer(nil) // HTTP/1 alone
	defer web.Close()
	for _, c := range []struct {
		name string
		spec Spec
		ok   bool
		want string
	}{
		{"the server as a whole", Spec{Address: plain}, true, "nomad: grpc ok"},
		{"a service", Spec{Address: plain, GRPCService: "web"}, true, "nomad: grpc ok"},
		{"a service that is not well", Spec{Address: plain, GRPCService: "ill"}, false, "NOT_SERVING"},
		{"a service that is not there", Spec{Address: plain, GRPCService: "none"}, false, "unknown service"},
		{"no health service", Spec{Address: ln.Addr().String()}, false, `status "12"`},
		{"no gRPC", Spec{Address: web.Listener.Addr().String()}, false, "nomad: "},
		{"TLS", Spec{Address: encrypted, GRPCUseTLS: true, TLSSkipVerify: true, GRPCService: "web"}, true, "nomad: grpc ok"},
		{"a certificate that nobody knows", Spec{Address: encrypted, GRPCUseTLS: true}, false, "certificate"},
		{"TLS to a server without TLS", Spec{Address: plain, GRPCUseTLS: true, TLSSkipVerify: true}, false, "nomad: "},
	} {
		c.spec.Type, c.spec.Timeout = berth.CheckGRPC, 30*time.Second
		if o := c.spec.Look(t.Context(), nil); o.OK != c.ok || !strings.Contains(o.Output, c.want) {
			t.Errorf("%s: %+v, want %v %s", c.name, o, c.ok, c.want)
		}
	}
}

// Nothing that a service answers makes reading it fail, or lasts.
func FuzzGRPCAnswer(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 2, 8, 1})
	f.Add([]byte{0, 0, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 0, 5, 18, 1, 'x', 8, 1})
	f.Fuzz(func(t *testing.T, b []byte) { _, _ = grpcAnswer(b) })
}

func TestAnswersOfTheHealthServiceAreRead(t *testing.T) {
	for _, c := range []struct {
		in     string
		status uint64
		ok     bool
	}{
		{"\x00\x00\x00\x00\x02\x08\x01", 1, true},
		{"\x00\x00\x00\x00\x00", 0, true},
		{"\x00\x00\x00\x00\x05\x12\x01x\x08\x02", 2, true}, // with a field that we do not know
		{"\x00\x00\x00\x00\x04\x10\x07\x08\x01", 1, true},
		{"", 0, false},
		{"\x01\x00\x00\x00\x02\x08\x01", 0, false}, // compressed, which we did not ask for
		{"\x00\x00\x00\x00\x03\x08\x01", 0, false},
		{"\x00\x00\x00\x00\x01\x08", 0, false},
		{"\x00\x00\x00\x00\x02\x12\x7f", 0, false},
		{"\x00\x00\x00\x00\x02\x0d\x01", 0, false},
	} {
		if status, err := grpcAnswer([]byte(c.in)); status != c.status || (err == nil) != c.ok {
			t.Errorf("%q: %d, %v", c.in, status, err)
		}
	}
}
