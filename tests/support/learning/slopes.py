"""A loss's gradient through a whole model, and its slope by finite differences."""

import torch

from learners.metric_sums import MetricSums


def move(student, size=0.01, seed=0):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in student.model.parameters():
            parameter.add_(size * torch.randn(parameter.shape, generator=generator))


def gradient(student, losses):
    """Return the summed loss and its gradient as one vector."""
    student.model.zero_grad()
    total = 0.0
    for loss in losses:
        loss.backward()
        total += float(loss.detach())
    return total, torch.cat([p.grad.flatten() for p in student.model.parameters()])


def norm_and_rise(student, losses, step=1e-3):
    """Return the gradient's norm, and by central differences how fast the loss rises along the gradient."""
    _, slope = gradient(student, losses.losses(0, MetricSums()))
    norm, values = float(slope.norm()), []
    for sign in (1, -1):
        shift(student, slope / norm, sign * step)
        with torch.no_grad():
            values.append(sum(float(loss) for loss in losses.losses(0, MetricSums())))
        shift(student, slope / norm, -sign * step)
    return norm, (values[0] - values[1]) / (2 * step)


def shift(student, direction, size):
    with torch.no_grad():
        start = 0
        for parameter in student.model.parameters():
            parameter.add_(size * direction[start : start + parameter.numel()].view_as(parameter))
            start += parameter.numel()
