// Command fakegpu is an example of a device plugin. Its devices are files in a
// directory: each file NAME of the directory is a "GPU" with that ID. One that
// contains the word "broken" is unhealthy.
//
//	plugin "fakegpu" {
//	  config { directory = "/srv/gpus" }
//	}
//
// A task that asks for one gets a read-only mount of the file at /gpu/NAME, a
// device node /dev/gpu-NAME, and the variable FAKEGPU_VISIBLE:
//
//	resources {
//	  device "example/gpu/fake" { count = 2 }
//	}
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"berth/internal/agent/plugin"
	wire "berth/internal/agent/plugin/pluginwire"
)

func main() {
	p := &gpus{}
	plugin.Serve(map[string]plugin.Handler{
		wire.BaseService + "/PluginInfo": plugin.Answer(func(context.Context, *wire.Empty) (*wire.PluginInfo, error) {
			return &wire.PluginInfo{Type: wire.TypeDevice, APIVersions: []string{wire.APIVersion}, Version: "0.1.0", Name: "fakegpu"}, nil
		}),
		wire.BaseService + "/ConfigSchema": plugin.Answer(func(context.Context, *wire.Empty) (*wire.Schema, error) {
			return &wire.Schema{Spec: &wire.Spec{Object: &wire.Object{Attributes: map[string]*wire.Spec{
				"directory": {Attr: &wire.Attr{Name: "directory", Type: "string", Required: true}},
			}}}}, nil
		}),
		wire.BaseService + "/SetConfig":     plugin.Answer(p.setConfig),
		wire.DeviceService + "/Fingerprint": plugin.Tell(p.fingerprint),
		wire.DeviceService + "/Reserve":     plugin.Answer(p.reserve),
		wire.DeviceService + "/Stats":       plugin.Tell(p.stats),
	})
}

// gpus are the devices.
type gpus struct{ dir string }

func (p *gpus) setConfig(_ context.Context, in *wire.SetConfig) (*wire.Empty, error) {
	var c struct {
		Directory string `json:"directory"`
	}
	if err := plugin.Decode(in.Config, &c); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(c.Directory) {
		return nil, fmt.Errorf("directory: must be an absolute path, got %q", c.Directory)
	}
	p.dir = c.Directory
	return &wire.Empty{}, nil
}

// look returns the devices that there are now.
func (p *gpus) look() *wire.DeviceGroup {
	memory, unit := int64(16), "GiB"
	g := &wire.DeviceGroup{Vendor: "example", Type: "gpu", Name: "fake", Attributes: map[string]*wire.Attribute{"memory": {Int: &memory, Unit: unit}}}
	entries, _ := os.ReadDir(p.dir)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(p.dir, e.Name()))
		d := &wire.DetectedDevice{ID: e.Name(), Healthy: err == nil}
		if strings.Contains(string(b), "broken") {
			d.Healthy, d.HealthDescription = false, "its file says that it is broken"
		}
		g.Devices = append(g.Devices, d)
	}
	return g
}

func (p *gpus) fingerprint(ctx context.Context, _ *wire.Empty, send func(*wire.DeviceFingerprint) error) error {
	var last *wire.DeviceGroup
	for {
		if now := p.look(); !reflect.DeepEqual(now, last) {
			if last = now; send(&wire.DeviceFingerprint{Groups: []*wire.DeviceGroup{now}}) != nil {
				return nil
			}
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
	}
}

func (p *gpus) reserve(_ context.Context, in *wire.Reserve) (*wire.Reserved, error) {
	r := &wire.ContainerReservation{Envs: map[string]string{"FAKEGPU_VISIBLE": strings.Join(slices.Sorted(slices.Values(in.IDs)), ",")}}
	for _, id := range in.IDs {
		path := filepath.Join(p.dir, filepath.Base(id))
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("there is no device %q", id)
		}
		r.Mounts = append(r.Mounts, &wire.DeviceMount{TaskPath: "/gpu/" + filepath.Base(id), HostPath: path, ReadOnly: true})
		r.Devices = append(r.Devices, &wire.Device{TaskPath: "/dev/gpu-" + filepath.Base(id), HostPath: "/dev/zero", Permissions: "r"})
	}
	return &wire.Reserved{Container: r}, nil
}

func (p *gpus) stats(ctx context.Context, in *wire.DeviceStatsRequest, send func(*wire.DeviceStatsResponse) error) error {
	for {
		g := p.look()
		s := &wire.DeviceGroupStats{Vendor: g.Vendor, Type: g.Type, Name: g.Name, Instances: map[string]*wire.DeviceStats{}}
		for _, d := range g.Devices {
			st, err := os.Stat(filepath.Join(p.dir, d.ID))
			if err != nil {
				continue
			}
			used := &wire.StatValue{Int: st.Size(), IntBase: 1 << 20, Unit: "B", Description: "size of its file"}
			s.Instances[d.ID] = &wire.DeviceStats{Summary: used, Stats: &wire.StatObject{Attributes: map[string]*wire.StatValue{"used": used}}, At: wire.NewTime(time.Now())}
		}
		if send(&wire.DeviceStatsResponse{Groups: []*wire.DeviceGroupStats{s}}) != nil {
			return nil
		}
		select {
		case <-time.After(max(in.Interval.Span(), 100*time.Millisecond)):
		case <-ctx.Done():
			return nil
		}
	}
}
