package docker

import (
	"reflect"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"berth/internal/agent/driver"
	"berth/internal/driverconfig"
)

// Volumes of the job are mounted with the rights and propagation that they have, and
// with their label, which only binds can have.
func TestVolumesHaveTheirRights(t *testing.T) {
	tk := allocs(t)(1, does("run"))
	tk.Mounts = []driver.Mount{
		{Source: "/srv/a", Destination: "/a", Propagation: "private"},
		{Source: "/srv/b", Destination: "/b", ReadOnly: true, Propagation: "host-to-task"},
		{Source: "/srv/c", Destination: "/c", Propagation: "bidirectional"},
		{Source: "/srv/d", Destination: "/d", ReadOnly: true, Propagation: "host-to-task", Label: "z"},
		{Source: "/srv/e", Destination: "/e", Propagation: "bidirectional", Label: "Z"},
		{Source: "/srv/f", Destination: "/f", Propagation: "private", Label: "Z"},
	}
	config, err := driverconfig.Docker.Read(tk.Config)
	if err != nil {
		t.Fatal(err)
	}
	host := new(container.HostConfig)
	if err := New(Defaults()).mount(host, tk, config); err != nil {
		t.Fatal(err)
	}
	bind := func(source, target string, readOnly bool, p mount.Propagation) mount.Mount {
		m := mount.Mount{Type: mount.TypeBind, Source: source, Target: target, ReadOnly: readOnly}
		if p != "" {
			m.BindOptions = &mount.BindOptions{Propagation: p}
		}
		return m
	}
	want := []mount.Mount{bind("/srv/a", "/a", false, ""), bind("/srv/b", "/b", true, mount.PropagationRSlave), bind("/srv/c", "/c", false, mount.PropagationRShared)}
	if !reflect.DeepEqual(host.Mounts, want) {
		t.Errorf("%+v, want %+v", host.Mounts, want)
	}
	if got, want := host.Binds[3:], []string{"/srv/d:/d:z,ro,rslave", "/srv/e:/e:Z,rshared", "/srv/f:/f:Z"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
