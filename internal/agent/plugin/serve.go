package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	ctymsgpack "github.com/zclconf/go-cty/cty/msgpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	wire "berth/internal/agent/plugin/pluginwire"
)

// The other side: what a program needs to be a plugin. The examples and the
// tests use it; plugins by others bring their own.

// Serve runs this process as a plugin until its agent ends it. handlers answer
// the calls by "service/method".
func Serve(handlers map[string]Handler) {
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: goplugin.HandshakeConfig{ProtocolVersion: wire.ProtocolVersion, MagicCookieKey: wire.Cookie, MagicCookieValue: wire.CookieValue},
		Plugins:         goplugin.PluginSet{"plugin": &served{handlers: handlers}},
		Logger:          hclog.New(&hclog.LoggerOptions{Level: hclog.Info, JSONFormat: true}),
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.ForceServerCodecV2(wire.Codec{}))...)
		},
	})
}

// Decode reads a config as agents send it, in msgpack, into what JSON could be read
// into.
func Decode(b []byte, to any) error {
	t, err := ctymsgpack.ImpliedType(b)
	if err != nil {
		return err
	}
	v, err := ctymsgpack.Unmarshal(b, t)
	if err != nil {
		return err
	}
	text, err := ctyjson.Marshal(v, t)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

// Handler answers the calls of one method.
type Handler func(grpc.ServerStream) error

// Answer returns the handler of a method with one question and one answer.
func Answer[In, Out any](f func(context.Context, *In) (*Out, error)) Handler {
	return func(s grpc.ServerStream) error {
		in := new(In)
		if err := s.RecvMsg(in); err != nil {
			return err
		}
		out, err := f(s.Context(), in)
		if err != nil {
			return err
		}
		return s.SendMsg(out)
	}
}

// Tell returns the handler of a method with one question and several answers.
func Tell[In, Out any](f func(ctx context.Context, in *In, send func(*Out) error) error) Handler {
	return func(s grpc.ServerStream) error {
		in := new(In)
		if err := s.RecvMsg(in); err != nil {
			return err
		}
		return f(s.Context(), in, func(out *Out) error { return s.SendMsg(out) })
	}
}

// Talk returns the handler of a method with messages both ways.
func Talk[In, Out any](f func(ctx context.Context, next func() (*In, error), send func(*Out) error) error) Handler {
	return func(s grpc.ServerStream) error {
		return f(s.Context(), func() (*In, error) {
			in := new(In)
			err := s.RecvMsg(in)
			return in, err
		}, func(out *Out) error { return s.SendMsg(out) })
	}
}

// served registers the handlers with go-plugin's server.
type served struct {
	goplugin.NetRPCUnsupportedPlugin
	handlers map[string]Handler
}

// GRPCServer implements goplugin.GRPCPlugin.
func (p *served) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	services := map[string]*grpc.ServiceDesc{}
	for _, name := range []string{wire.BaseService, wire.DriverService, wire.DeviceService} {
		services[name] = &grpc.ServiceDesc{ServiceName: name, HandlerType: (*any)(nil)}
	}
	for path, h := range p.handlers {
		for name, d := range services {
			if len(path) > len(name) && path[:len(name)+1] == name+"/" {
				// Each method is a stream to gRPC's server; on the wire there is no
				// difference.
				d.Streams = append(d.Streams, grpc.StreamDesc{
					StreamName: path[len(name)+1:], ServerStreams: true, ClientStreams: true,
					Handler: func(_ any, s grpc.ServerStream) error { return answered(h(s)) },
				})
			}
		}
	}
	for _, d := range services {
		if len(d.Streams) > 0 {
			s.RegisterService(d, nil)
		}
	}
	return nil
}

// answered gives an error a code of gRPC.
func answered(err error) error {
	if err == nil || err == io.EOF {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codes.Unknown, fmt.Sprint(err))
}

// GRPCClient implements goplugin.GRPCPlugin; a plugin is no client.
func (p *served) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, fmt.Errorf("not a client")
}
