"""The published loop once more, in plain NumPy, from its description.

Nothing here is taken from `aen`. Random draws are given from outside.
"""

import numpy as np

EPSILONS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)
MODELS = (200, 100, 100, 100, 100, 100, 100, 50, 50, 50, 50)


class Agent:
  """A Q-network with hand-written gradients, Adam and Huber loss."""

  def __init__(self, params, target_params, config):
    self.layers, self.target = as_layers(params), as_layers(target_params)
    self.config = config
    self.moments = [
      [(np.zeros_like(x), np.zeros_like(x)) for x in layer]
      for layer in self.layers
    ]
    self.updates = 0

  def q_values(self, layers, bits):
    return self._forward(layers, bits)[-1]

  def _forward(self, layers, bits):
    found = [bits * self.config.input_scale]
    for i, (kernel, bias) in enumerate(layers):
      y = found[-1] @ kernel + bias
      found.append(np.maximum(y, 0) if i < len(layers) - 1 else y)
    return found

  def _errors(self, s, a, r, s_next):
    bits = [as_bits(x, self.config.num_bits) for x in (s, s_next)]
    found = self._forward(self.layers, bits[0])
    best = self.q_values(self.target, bits[1]).max(axis=1)
    goal = r + self.config.discount * best
    return found, found[-1][np.arange(len(a)), a] - goal

  def loss(self, s, a, r, s_next):
    _, error = self._errors(s, a, r, s_next)
    size = np.abs(error)
    return np.where(size < 1, 0.5 * error**2, size - 0.5).mean()

  def update(self, s, a, r, s_next):
    found, error = self._errors(s, a, r, s_next)
    slope = np.zeros_like(found[-1])
    slope[np.arange(len(a)), a] = np.clip(error, -1, 1) / len(a)
    gradients = []
    for x, (kernel, _) in zip(found[-2::-1], self.layers[::-1], strict=True):
      gradients.append((x.T @ slope, slope.sum(axis=0)))
      slope = (slope @ kernel.T) * (x > 0)
    self._adam(gradients[::-1])

  def _adam(self, gradients, beta_1=0.9, beta_2=0.999, tiny=1e-8):
    self.updates += 1
    for i, gradient in enumerate(gradients):
      for j, g in enumerate(gradient):
        m, v = self.moments[i][j]
        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * g * g
        self.moments[i][j] = m, v
        m_hat = m / (1 - beta_1**self.updates)
        v_hat = v / (1 - beta_2**self.updates)
        step = self.config.learning_rate * m_hat / (np.sqrt(v_hat) + tiny)
        self.layers[i][j] = self.layers[i][j] - step

  def copy_target(self):
    self.target = [list(layer) for layer in self.layers]


class Loop:
  """The search: one step at a time, with all it remembers in the open."""

  def __init__(self, agent, accuracy):
    self.agent, self.accuracy = agent, accuracy  # accuracy: of a bit string
    self.state, self.time, self.steps = '0' * 12, 0, 0
    self.known = {self.state: accuracy(self.state)}
    self.baseline = self.known[self.state]
    self.memory, self.batch_size = [], agent.config.batch_size

  def epsilon(self):
    models = len(self.known)
    for value, count in zip(EPSILONS, MODELS, strict=True):
      if models < count:
        return value
      models -= count
    return EPSILONS[-1]

  def step(self, chance, any_action, lots):
    """Takes one step and returns the state that it reaches."""
    action = any_action if chance < self.epsilon() else self.best_action()
    bits = list(self.state)
    bits[action] = '1' if bits[action] == '0' else '0'
    there = ''.join(bits)
    if there not in self.known:
      self.known[there] = self.accuracy(there)
    x = self.agent.config.reward_scale * (self.known[there] - self.baseline)
    reward = np.float32(x * np.exp(abs(x)))
    self.remember((as_code(self.state), action, reward, as_code(there)))
    if len(self.memory) >= self.batch_size:
      by_lot = np.argsort(-lots[: len(self.memory)], kind='stable')
      drawn = [self.memory[i] for i in by_lot[: self.batch_size]]
      self.agent.update(*(np.array(x) for x in zip(*drawn, strict=True)))
    if len(self.known) % 2 == 0:
      self.agent.copy_target()
    self.state, self.time, self.steps = there, self.time + 1, self.steps + 1
    if self.time == 100:
      self.state, self.time = '0' * 12, 0
    return there

  def remember(self, transition):
    if len(self.memory) < self.agent.config.replay_capacity:
      self.memory.append(transition)
    else:  # in the place of the oldest
      self.memory[self.steps % len(self.memory)] = transition

  def best_action(self):
    bits = np.array([[int(b) for b in self.state]])
    return self.agent.q_values(self.agent.layers, bits)[0].argmax()

  def finished(self):
    return len(self.known) >= 1000 or self.steps >= 6000


def as_layers(params):
  return [
    [np.asarray(layer[part], np.float64) for part in ('kernel', 'bias')]
    for layer in params.values()
  ]


def as_bits(codes, num_bits):
  return np.array(codes)[:, None] >> np.arange(num_bits) & 1


def as_code(bits):
  return sum(1 << k for k, bit in enumerate(bits) if bit == '1')
