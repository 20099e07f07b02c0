//go:build linux

package truechimer

import (
	"math/big"
	"math/rand"
	"testing"
)

func bigOf(a wide) *big.Int {
	n := new(big.Int).Lsh(big.NewInt(a.hi), 64)
	return n.Add(n, new(big.Int).SetUint64(a.lo))
}

// wrapped is the number modulo 2¹²⁸, as a signed one.
func wrapped(n *big.Int) *big.Int {
	half, whole := new(big.Int).Lsh(big.NewInt(1), 127), new(big.Int).Lsh(big.NewInt(1), 128)
	n = new(big.Int).Mod(new(big.Int).Add(n, half), whole)
	return n.Sub(n, half)
}

func held(n *big.Int) *big.Int {
	for _, limit := range []wide{lowest, highest} {
		if edge := bigOf(limit); n.Sign() == edge.Sign() && n.CmpAbs(edge) > 0 {
			return edge
		}
	}
	return n
}

func some(r *rand.Rand) uint64 {
	switch r.Intn(8) {
	case 0:
		return 0
	case 1:
		return 1<<64 - 1
	case 2:
		return 1 << 63
	}
	return r.Uint64() >> r.Intn(64)
}

func TestArithmeticIsExact(t *testing.T) {
	r := rand.New(rand.NewSource(5))
	same := func(what string, got wide, want *big.Int) {
		t.Helper()
		if bigOf(got).Cmp(want) != 0 {
			t.Fatalf("%s: %v, not %v", what, bigOf(got), want)
		}
	}
	word := func(n uint64) *big.Int { return new(big.Int).SetUint64(n) }
	shifted := func(n *big.Int, by uint) *big.Int { return new(big.Int).Rsh(n, by) }
	for i := 0; i < 20_000; i++ {
		a, b := wide{int64(some(r)), some(r)}, wide{int64(some(r)), some(r)}
		counts, high, low := int64(some(r)), some(r), some(r)
		A, B := bigOf(a), bigOf(b)
		same("plus", a.plus(b), wrapped(new(big.Int).Add(A, B)))
		same("minus", a.minus(b), wrapped(new(big.Int).Sub(A, B)))
		same("add", a.add(b), held(new(big.Int).Add(A, B)))
		same("sub", a.sub(b), held(new(big.Int).Sub(A, B)))
		same("abs", a.abs(), held(new(big.Int).Abs(A)))
		if a.less(b) != (A.Cmp(B) < 0) {
			t.Fatalf("%v < %v", A, B)
		}
		period := new(big.Int).Add(new(big.Int).Lsh(word(high), 64), word(low))
		same("times", times(counts, high, low), wrapped(shifted(new(big.Int).Mul(big.NewInt(counts), period), 64)))
		rate := high >> 1
		same("share", share(a, rate), wrapped(shifted(new(big.Int).Mul(new(big.Int).Abs(A), word(rate)), 64)))
		magnitude := a.abs()
		grown := new(big.Int).Mul(shifted(bigOf(magnitude), 32), word(rate))
		want := shifted(grown, 32)
		if grown.BitLen() > 127 {
			want = bigOf(highest)
		}
		same("over", over(magnitude, rate), want)
		ns := int64(some(r))
		scaled := new(big.Int).Lsh(big.NewInt(ns), 64)
		scaled.Add(scaled, big.NewInt(nanos/2)).Div(scaled, big.NewInt(nanos))
		same("ofNanos", ofNanos(ns), scaled)
		if got := ofNanos(ns).nanos(); got != ns {
			t.Fatalf("%d ns became %d", ns, got)
		}
		nearest := new(big.Int).Mul(A, big.NewInt(nanos))
		nearest.Add(nearest, new(big.Int).Lsh(big.NewInt(1), 63)).Rsh(nearest, 64)
		if nearest.IsInt64() && nearest.Int64() != a.nanos() {
			t.Fatalf("%v is %v ns, not %d", A, nearest, a.nanos())
		}
		if !nearest.IsInt64() && a.nanos() != end(a.hi < 0).hi {
			t.Fatalf("%v is too much for %d ns", A, a.nanos())
		}
	}
}

func TestPeriodsComeBack(t *testing.T) {
	r := rand.New(rand.NewSource(6))
	for i := 0; i < 20_000; i++ {
		mantissa, shift := r.Uint64()|1<<63, uint(r.Intn(64))
		fine := new(big.Int).Lsh(new(big.Int).SetUint64(mantissa), 64-shift)
		high, low := new(big.Int).Rsh(fine, 64).Uint64(), new(big.Int).And(fine, new(big.Int).SetUint64(1<<64-1)).Uint64()
		p, ok := periodOf(high, low)
		if !ok || p != (period{mantissa, shift}) {
			t.Fatalf("%x %x became %v", high, low, p)
		}
		span := wide{int64(some(r) >> 1), some(r)}
		counts := new(big.Int).Lsh(bigOf(span), 64)
		counts.Div(counts, fine)
		if got := p.counts(span); counts.IsInt64() && counts.Int64() != got || !counts.IsInt64() && got != 1<<63-1 {
			t.Fatalf("%v takes %v counts, not %d", span, counts, got)
		}
		if !p.within(p, 0) || p.within(period{mantissa, shift ^ 2}, 1<<62) {
			t.Fatalf("%v", p)
		}
	}
	if _, ok := periodOf(0, 1<<63); ok {
		t.Fatal("a period below 2⁻⁶⁴ s")
	}
	if _, ok := periodOf(1<<63, 1); ok {
		t.Fatal("a period of more than 64 bits")
	}
}

func TestATimeNamespaceShows(t *testing.T) {
	for text, shift := range map[string]string{
		"monotonic           0         0\nboottime 0 0\n": "",
		"monotonic  -2  500000000\n":                      "-2 s + 500000000 ns",
		"boottime 1 0\n":                                  "",
		"":                                                "",
	} {
		if got := shiftOf(text); got != shift {
			t.Errorf("%q: %q", text, got)
		}
	}
}
