package daemon

import (
	"berth/internal/agent/fetch"
	"berth/internal/config"
)

// artifacts says what fetching artifacts may take.
func artifacts(c *config.Inputs) fetch.Config {
	return fetch.Config{
		HTTPTimeout: c.HTTPTimeout, GitTimeout: c.GitTimeout, S3Timeout: c.S3Timeout, MaxBytes: c.MaxBytes, MaxUnpacked: c.MaxUnpacked, MaxFiles: c.MaxFiles,
		Open: c.Open, Paths: c.Paths, Env: c.Env,
	}
}
