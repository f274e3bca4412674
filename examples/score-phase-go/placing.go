// Also change: internal/trireme/evaluation/scoring/placement.py (placing in order).

package main

// candidate is a node that pods are placed on.
type candidate struct {
	slot     uint32
	capacity int32 // how many more copies it takes
	copies   int64 // how many it was given in this call
	own      int64 // the scores that its copies change
	raw      int64 // TaintToleration's raw score
	extra    int64 // what extenders add
	tie      uint64
	total    int64
}

// placer chooses the nodes of the next pods of a class, one after the other, as one cycle for each would.
type placer struct {
	scorer     *scorer
	nodes      []node
	candidates []candidate
	open       int // how many candidates take more
	highest    int64
}

func newPlacer(by *scorer, nodes []node, candidates []candidate) *placer {
	p := &placer{scorer: by, nodes: nodes, candidates: candidates, open: len(candidates)}
	for i := range candidates {
		each := &candidates[i]
		on := &nodes[each.slot]
		each.tie, each.own = tieOf(each.slot), by.own(on, 0)
		if !by.skips[taintsName] {
			each.raw = by.untolerated(on)
		}
	}
	p.rank()
	return p
}

// rank makes all totals, normalised over the candidates that take more.
func (p *placer) rank() {
	p.highest = 0
	for _, each := range p.candidates {
		if each.capacity > 0 {
			p.highest = max(p.highest, each.raw)
		}
	}
	for i := range p.candidates {
		p.sum(&p.candidates[i])
	}
}

func (p *placer) sum(of *candidate) {
	of.total = of.own + of.extra
	if !p.scorer.skips[taintsName] {
		of.total += p.scorer.taints * normalized(of.raw, p.highest)
	}
}

// place returns the slots of the next pods and the total of each when it was chosen; fewer where no more fit.
func (p *placer) place(count int) (slots []uint32, totals []int64) {
	for range count {
		best := p.best()
		if best == nil {
			break
		}
		slots, totals = append(slots, best.slot), append(totals, best.total)
		if p.open == 1 {
			totals[len(totals)-1] = 0 // there was no choice
		}
		p.take(best)
	}
	return slots, totals
}

func (p *placer) best() *candidate {
	var best *candidate
	for i := range p.candidates {
		each := &p.candidates[i]
		if each.capacity == 0 {
			continue
		}
		if best == nil || each.total > best.total || each.total == best.total && each.tie > best.tie {
			best = each
		}
	}
	return best
}

// take gives the candidate a copy, and makes anew what that changes.
func (p *placer) take(of *candidate) {
	of.capacity--
	of.copies++
	if of.capacity == 0 {
		p.open--
		if of.raw > 0 && of.raw == p.highest {
			p.rank() // it may have been the last with the highest raw score
		}
		return
	}
	of.own = p.scorer.own(&p.nodes[of.slot], of.copies)
	p.sum(of)
}

// tieOf is a slot's place among nodes of equal totals, the highest first: the same on every replica, and in our Python
// phase, so that it does not matter whom the frontend calls. Source: the finaliser of splitmix64.
func tieOf(slot uint32) uint64 {
	x := uint64(slot) + 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

const minSampled = 100

// sample returns as many candidates as a profile with a percentage scores, beginning somewhere that depends on the seed.
// Source: pkg/scheduler/schedule_one.go numFeasibleNodesToFind of Kubernetes.
func sample(candidates []candidate, nodes, percentage int, seed uint64) []candidate {
	count := nodes
	if percentage > 0 && percentage < 100 && nodes >= minSampled {
		count = max(nodes*percentage/100, minSampled)
	}
	if len(candidates) <= count {
		return candidates
	}
	start := int(seed * 0x9E3779B97F4A7C15 % uint64(len(candidates)))
	out := append([]candidate{}, candidates[start:]...)
	return append(out, candidates[:start]...)[:count]
}
