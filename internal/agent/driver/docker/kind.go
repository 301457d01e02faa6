package docker

import (
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"berth/internal/agent/driver"
	"berth/internal/driverconfig"
)

// Kind is a kind of engine that speaks Docker's API, and the driver of its
// containers.
type Kind struct {
	Name     string   // of the driver
	Plugin   string   // of the driver's block in the agent's configuration
	Title    string   // of the engine, for people
	Networks []string // as of [driver.Capabilities]
	Paths    bool     // containers join a network namespace by its path; without, through an infra container

	// Read reads the config of a task. Its values are those of
	// [driverconfig.Docker].
	Read func(*driver.Task) (driverconfig.Values, error)

	// Complete adds to what the engine is asked to create for a task what the
	// words of driverconfig.Docker cannot say. It may be nil.
	Complete func(*client.ContainerCreateOptions, *driver.Task) error

	// Attributes returns further attributes of the node. It may be nil.
	Attributes func(system.Info) map[string]string
}

// Engine is the kind of Docker's own engines.
var Engine = &Kind{
	Name: Name, Plugin: Name, Title: "Docker", Networks: networkModes(),
	Read: func(t *driver.Task) (driverconfig.Values, error) { return driverconfig.Docker.Read(t.Config) },
}
