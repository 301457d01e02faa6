package server

import "berth/internal/api"

// members returns the members that operators can list and change, nil if there
// are none.
func (c *Config) members() api.Members {
	if c.Cluster == nil {
		return nil
	}
	m, _ := c.Cluster.Members.(api.Members)
	return m
}
