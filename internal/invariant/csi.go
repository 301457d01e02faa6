package invariant

// claims checks I-61: each claim on a CSI volume is of a volume that exists, and
// what is attached clashes with no older claim.
func (c *checker) claims() {
	for x := range c.CSIClaims() {
		if c.CSIVolume(x.Namespace, x.VolumeID) == nil {
			c.addf("I-61", "allocation %s has a claim on CSI volume %s, which does not exist", x.AllocID, x.VolumeID)
		}
		if y := c.ClaimWaitsFor(x); y != nil && x.Published {
			c.addf("I-61", "CSI volume %s is attached for allocation %s, while allocation %s still has it", x.VolumeID, x.AllocID, y.AllocID)
		}
	}
}
