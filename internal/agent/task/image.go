package task

import (
	"maps"
	"path/filepath"

	"berth"
	"berth/internal/agent/driver"
	"berth/op"
)

// What is different for a task that runs in an image: it has a file tree, users
// and an environment of its own, and the allocation's directories at fixed
// places in it.

// ofImage reports whether the attempt's driver runs images.
func (at *attempt) ofImage() bool {
	return at.driver != nil && at.driver.Capabilities().Isolation == driver.ImageIsolation
}

// imageEnv turns the environment of a task into that of one in an image.
// Nothing of the host's environment is in it.
func imageEnv(env map[string]string, t *berth.Task, p *Place) {
	dir := p.TaskDir(t.Name)
	for name := range p.Host {
		if _, ok := t.Env[name]; !ok {
			delete(env, name)
		}
	}
	if env["TMPDIR"] == filepath.Join(dir, "tmp") {
		delete(env, "TMPDIR")
	}
	maps.Copy(env, map[string]string{"NOMAD_ALLOC_DIR": "/alloc", "NOMAD_TASK_DIR": "/local", "NOMAD_SECRETS_DIR": "/secrets"})
}

// hostPorts returns the ports of the group, each with the address of the host
// that it is on.
func hostPorts(a *op.Alloc, n *berth.Node) (out []berth.PortMapping) {
	if a.AllocatedResources == nil {
		return nil
	}
	for _, m := range a.AllocatedResources.Shared.Ports {
		if m.HostIP == "" && n != nil && n.NodeResources != nil {
			m.HostIP = n.HostAddress()
		}
		out = append(out, m)
	}
	return out
}
