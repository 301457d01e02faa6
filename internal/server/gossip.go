package server

import "berth/internal/api"

// members is the gossip that people can look at and change, nil if there is
// none.
func (c *Config) members() api.Members {
	if c.Cluster == nil {
		return nil
	}
	m, _ := c.Cluster.Members.(api.Members)
	return m
}
