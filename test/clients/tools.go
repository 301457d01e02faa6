// Package clients pins the programs of others that make clients builds.
package clients

import (
	_ "github.com/hashicorp/consul-template/logging" // of the program itself
	_ "github.com/hashicorp/consul-template/manager"
)
