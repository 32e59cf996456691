from devnode.chain.performance import PerformanceSampler, Sample


def test_a_sample_covers_a_minute() -> None:
    sampler = PerformanceSampler()
    for second in range(121):
        sampler.observe(1_000 + second, 2, float(second))
    newest, older = sampler.recent(10)
    assert older == Sample(1_060, 61, 122, 60)
    assert newest == Sample(1_120, 60, 120, 60)
    assert sampler.recent(1) == [newest]
