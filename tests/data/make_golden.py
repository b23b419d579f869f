#!/usr/bin/env python3
"""Writes golden.json: losses and gradients of small models, made without any code of subring.

The model and its subspaces are written down here a second time, from docs/method.md alone: in JAX,
float64, the whole sequence in one piece, gradients by automatic differentiation, each also checked
against a finite difference. See README.md beside this file.
"""

import argparse
import json
import platform

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

MASK64 = (1 << 64) - 1
PLANE_STREAM = 0x706C616E65  # "plane"
WEIGHT_GRID = 1 << 10  # weights are multiples of 1 / grid, so integers describe them exactly
BASIS_GRID = 1 << 23  # as fine as f32 allows for numbers up to 1


# --- Generator of subring/core/random.hpp -----------------------------------------------------


def mix_bits(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK64
    return x ^ (x >> 31)


def derive_seed(seed, a, b=0, c=0):
    return mix_bits(mix_bits(mix_bits(mix_bits(seed) ^ a) ^ b) ^ c)


class Random:
    def __init__(self, seed):
        self.seed, self.counter = seed, 0

    def next_bits(self):
        bits = mix_bits((self.seed + 0x9E3779B97F4A7C15 * self.counter) & MASK64)
        self.counter += 1
        return bits

    def below(self, bound):
        limit = MASK64 - MASK64 % bound
        while True:
            bits = self.next_bits()
            if bits < limit:
                return bits % bound


def make_planes(run_seed, kv_width, generators):
    """Shuffles the coordinates, pairs neighbours, deals the planes round to the generators."""
    order = list(range(kv_width))
    random = Random(derive_seed(run_seed, PLANE_STREAM))
    for i in range(kv_width - 1, 0, -1):
        j = random.below(i + 1)
        order[i], order[j] = order[j], order[i]
    partner, sign, generator = ([0] * kv_width for _ in range(3))
    for plane in range(kv_width // 2):
        p, q = order[2 * plane], order[2 * plane + 1]
        partner[p], partner[q] = q, p
        sign[p], sign[q] = -1, 1
        generator[p] = generator[q] = plane % generators
    return {"partner": partner, "sign": sign, "generator": generator}


def generator_matrices(planes):
    """[k, e, e]: A_g, skew-symmetric; (A_g x)_p = sign_p x_partner(p) on the planes of g."""
    e, k = len(planes["partner"]), max(planes["generator"]) + 1
    matrices = np.zeros((k, e, e))
    for p in range(e):
        matrices[planes["generator"][p], p, planes["partner"][p]] = planes["sign"][p]
    return matrices


# --- The model ---------------------------------------------------------------------------------


def rms_norm(x, weight, eps):
    return x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def rope(x, theta):
    """x [T, H, D]; pairs (i, i + D/2) turn by position * theta^(-2i/D)."""
    T, _, D = x.shape
    angles = np.arange(T)[:, None] * theta ** (-2.0 * np.arange(D // 2) / D)[None, :]
    cos = np.concatenate([np.cos(angles)] * 2, axis=1)[:, None, :]
    sin = np.concatenate([np.sin(angles)] * 2, axis=1)[:, None, :]
    rotated_half = jnp.concatenate([-x[..., D // 2 :], x[..., : D // 2]], axis=-1)
    return x * cos + rotated_half * sin


def rotation_matrix(kind, generators, theta):
    """R(theta) [e, e], a product over the commuting generators (method.md, section 2)."""
    R = jnp.eye(generators.shape[1])
    for g, A in enumerate(generators):
        A2 = A @ A  # -1 on the planes of g, 0 elsewhere
        if kind == "taylor2":
            R = R @ (jnp.eye(len(A)) + theta[g] * A + theta[g] ** 2 / 2 * A2)
        else:
            R = R @ (jnp.eye(len(A)) + jnp.sin(theta[g]) * A + (1 - jnp.cos(theta[g])) * A2)
    return R


def rebuild(case, params, prefix, X, B, generators, thetas):
    """X B U U^T chunk by chunk [T, e]; U = R(theta) Ubar, theta from the chunk's source."""
    basis, kind = params[prefix + ".basis"], case["compression"]["rotation"]
    C = case["chunks"]
    n = X.shape[0] // C
    rebuilt = []
    for c in range(C):
        U = basis
        if kind != "none":
            source = c if case["compression"]["source"] == "chunk" else c - 1
            theta = params[prefix + ".angle_bias"][0]
            if source >= 0:
                mean = X[source * n : (source + 1) * n].mean(axis=0)
                theta = theta + params[prefix + ".angle_weight"] @ mean
            thetas.append(theta)
            U = rotation_matrix(kind, generators, theta) @ basis
        Z = X[c * n : (c + 1) * n] @ (B @ U)
        rebuilt.append(Z @ U.T)
    return jnp.concatenate(rebuilt)


def attention(case, params, layer, X, generators, thetas):
    model = case["model"]
    name = f"model.layers.{layer}.self_attn."
    Hq, Hkv = model["num_attention_heads"], model["num_key_value_heads"]
    T, d = X.shape
    D = d // Hq
    chunk = np.arange(T) // (T // case["chunks"])
    same_chunk = chunk[:, None] == chunk[None, :]
    causal = np.tril(np.ones((T, T), bool))

    B_key, B_value = params[name + "k_proj.weight"].T, params[name + "v_proj.weight"].T
    forms = [(X @ B_key, X @ B_value, causal)]
    if case["form"] == "subspace":
        prefix = f"subring.layers.{layer}."
        K = rebuild(case, params, prefix + "key", X, B_key, generators, thetas)
        V = rebuild(case, params, prefix + "value", X, B_value, generators, thetas)
        if case["compression"]["exact_local"]:
            plain_K, plain_V, _ = forms[0]
            forms = [(plain_K, plain_V, causal & same_chunk), (K, V, causal & ~same_chunk)]
        else:
            forms = [(K, V, causal)]

    q = rope((X @ params[name + "q_proj.weight"].T).reshape(T, Hq, D), model["rope_theta"])
    scores = jnp.full((Hq, T, T), -jnp.inf)
    for K, _, mask in forms:
        k = jnp.repeat(rope(K.reshape(T, Hkv, D), model["rope_theta"]), Hq // Hkv, axis=1)
        scores = jnp.where(mask, jnp.einsum("ihd,jhd->hij", q, k) / np.sqrt(D), scores)
    P = jax.nn.softmax(scores, axis=-1)
    out = 0
    for _, V, mask in forms:
        v = jnp.repeat(V.reshape(T, Hkv, D), Hq // Hkv, axis=1)
        out = out + jnp.einsum("hij,jhd->ihd", jnp.where(mask, P, 0), v)
    return out.reshape(T, d) @ params[name + "o_proj.weight"].T


def forward(case, params):
    """Logits [T, V], and all angles on the way."""
    model, thetas = case["model"], []
    generators = generator_matrices(case["planes"])
    eps = model["rms_norm_eps"]
    embedding = params["model.embed_tokens.weight"]
    x = embedding[np.array(case["tokens"])]
    for layer in range(model["num_hidden_layers"]):
        name = f"model.layers.{layer}."
        X = rms_norm(x, params[name + "input_layernorm.weight"], eps)
        x = x + attention(case, params, layer, X, generators, thetas)
        Y = rms_norm(x, params[name + "post_attention_layernorm.weight"], eps)
        gate, up = (Y @ params[name + f"mlp.{m}_proj.weight"].T for m in ("gate", "up"))
        x = x + (jax.nn.silu(gate) * up) @ params[name + "mlp.down_proj.weight"].T
    x = rms_norm(x, params["model.norm.weight"], eps)
    head = embedding if model["tie_word_embeddings"] else params["lm_head.weight"]
    return x @ head.T, thetas


def token_losses(case, params):
    logits, _ = forward(case, params)
    labels = np.array(case["labels"])
    picked = logits[np.arange(len(labels)), np.maximum(labels, 0)]
    return jnp.where(labels >= 0, jax.nn.logsumexp(logits, axis=-1) - picked, 0)


def loss(case, params):
    return token_losses(case, params).sum() / sum(label >= 0 for label in case["labels"])


# --- Cases -------------------------------------------------------------------------------------


def make_parameters(case, rng):
    """{name: (grid, integers)}; the parameter is integers / grid. Names of src/model/parameters."""
    model, compression = case["model"], case["compression"]
    d, f, V = model["hidden_size"], model["intermediate_size"], model["vocab_size"]
    e = model["num_key_value_heads"] * d // model["num_attention_heads"]
    parameters = {}

    def add(name, values, grid=WEIGHT_GRID):
        parameters[name] = (grid, np.rint(np.asarray(values) * grid).astype(int))

    def matrix(name, outputs, inputs):
        add(name + ".weight", rng.normal(0, inputs**-0.5, (outputs, inputs)))

    def norm(name):
        add(name + ".weight", 1 + rng.normal(0, 0.2, d))

    add("model.embed_tokens.weight", rng.normal(0, 1, (V, d)))
    for layer in range(model["num_hidden_layers"]):
        name = f"model.layers.{layer}."
        norm(name + "input_layernorm")
        for leaf, outputs in (("q", d), ("k", e), ("v", e), ("o", d)):
            matrix(f"{name}self_attn.{leaf}_proj", outputs, d)
        norm(name + "post_attention_layernorm")
        matrix(name + "mlp.gate_proj", f, d)
        matrix(name + "mlp.up_proj", f, d)
        matrix(name + "mlp.down_proj", d, f)
        if compression["codec"] == "none":
            continue
        for tensor in ("key", "value"):
            prefix = f"subring.layers.{layer}.{tensor}"
            basis, _ = np.linalg.qr(rng.normal(size=(e, compression[tensor + "_rank"])))
            add(prefix + ".basis", basis, BASIS_GRID)
            if compression["rotation"] != "none":
                k = compression["generators"]
                add(prefix + ".angle_weight", rng.normal(0, 0.3, (k, d)))
                add(prefix + ".angle_bias", rng.choice([-0.4, 0.4], (1, k)))
    norm("model.norm")
    if not model["tie_word_embeddings"]:
        add("lm_head.weight", case.pop("head_scale") * rng.normal(0, d**-0.5, (V, d)))
    case.pop("head_scale", None)
    return parameters


def make_case(name, seed, *, form="subspace", chunks=3, num_tokens=24, unlabelled=(),
              head_scale=1.0, model=None, compression=None):
    case = {
        "name": name,
        "seed": seed,
        "form": form,
        "chunks": chunks,
        "head_scale": head_scale,
        "model": {
            "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
            "num_key_value_heads": 2, "intermediate_size": 12, "vocab_size": 11,
            "rope_theta": 100.0, "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
            **(model or {}),
        },
        "compression": {
            "codec": "subspace", "key_rank": 3, "value_rank": 4, "exact_local": True,
            "learned_basis": True, "rotation": "exact", "source": "chunk", "generators": 1,
            **(compression or {}),
        },
    }
    rng = np.random.default_rng(seed)
    shape = case["model"]
    stream = rng.integers(0, shape["vocab_size"], num_tokens + 1)
    case["tokens"] = stream[:-1].tolist()
    case["labels"] = [-1 if t in unlabelled else int(stream[t + 1]) for t in range(num_tokens)]
    e = shape["num_key_value_heads"] * shape["hidden_size"] // shape["num_attention_heads"]
    case["planes"] = make_planes(seed, e, case["compression"]["generators"])
    parameters = make_parameters(case, rng)
    return compute(case, parameters, rng)


def check_derivative(case, params, gradients, rng):
    """Central differences along a random direction: automatic differentiation differs by the
    h^2 of the third derivative and rounding / h, together below 1e-7 for h = 1e-5."""
    h = 1e-5
    for name in params:
        direction = rng.normal(size=params[name].shape)
        moved = [loss(case, {**params, name: params[name] + s * h * direction}) for s in (1, -1)]
        expected = float((moved[0] - moved[1]) / (2 * h))
        found = float((gradients[name] * direction).sum())
        assert abs(found - expected) < 1e-7 * max(1, abs(expected)), (name, found, expected)


def compute(case, parameters, rng):
    params = {name: jnp.asarray(v / grid) for name, (grid, v) in parameters.items()}
    for value in params.values():
        assert (np.asarray(value) == np.asarray(value, np.float32)).all()
    value, gradients = jax.value_and_grad(lambda p: loss(case, p))(params)
    check_derivative(case, params, gradients, rng)
    if not case["compression"]["learned_basis"]:  # nobody asks for these gradients
        gradients = {n: 0 * g if n.endswith(".basis") else g for n, g in gradients.items()}
    logits, thetas = forward(case, params)

    def digits(x):
        return [float(f"{v:.9g}") for v in np.asarray(x).ravel()]

    case["loss"] = digits(value)[0]
    case["token_losses"] = digits(token_losses(case, params))
    case["parameters"] = [
        {"name": name, "shape": list(v.shape), "grid": grid, "values": v.ravel().tolist(),
         "gradient": digits(gradients[name])}
        for name, (grid, v) in parameters.items()
    ]
    angles = np.abs(np.concatenate(thetas)) if thetas else np.zeros(1)
    print(f"{case['name']}: loss {case['loss']:.6f}, |theta| {angles.min():.2f} .. "
          f"{angles.max():.2f}, |logit| up to {np.abs(logits).max():.1f}")
    return case


def make_cases():
    plain = {"codec": "none"}
    last = (23,)
    gqa = {"hidden_size": 16, "num_attention_heads": 4}
    return [
        make_case("plain, untied head, large eps", 1, form="plain", compression=plain,
                  model={"rms_norm_eps": 0.05}, unlabelled=last),
        make_case("plain, tied head, grouped queries", 2, form="plain", compression=plain,
                  chunks=4, model={**gqa, "tie_word_embeddings": True}, unlabelled=last),
        make_case("exact rotation, exact at home, learned basis", 3, chunks=4, unlabelled=last),
        make_case("taylor2, compressed at home", 4, unlabelled=last,
                  compression={"rotation": "taylor2", "exact_local": False}),
        make_case("two generators, previous chunk", 5, chunks=4, unlabelled=last,
                  compression={"generators": 2, "source": "previous_chunk"}),
        make_case("taylor2, two generators, previous chunk, compressed at home, tied head", 6,
                  model={"tie_word_embeddings": True}, unlabelled=last,
                  compression={"rotation": "taylor2", "generators": 2,
                               "source": "previous_chunk", "exact_local": False}),
        make_case("no rotation, fixed basis", 7, unlabelled=last,
                  compression={"rotation": "none", "learned_basis": False}),
        make_case("no rotation, learned basis, compressed at home, grouped queries", 8, chunks=4,
                  model={**gqa, "num_hidden_layers": 1}, unlabelled=last,
                  compression={"rotation": "none", "exact_local": False}),
        make_case("labels missing, a whole chunk among them", 9,
                  unlabelled=(0, 5, 22, 23, *range(8, 16))),
        make_case("large logits", 10, head_scale=12.0, unlabelled=last,
                  compression={"rotation": "taylor2"}),
        make_case("subspaces at rest: plain form before or after compression", 11, form="plain",
                  model={"num_hidden_layers": 1}, unlabelled=last),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    golden = {
        "made_with": {"python": platform.python_version(), "jax": jax.__version__,
                      "numpy": np.__version__},
        "cases": make_cases(),
    }
    # One line a case and parameter, so that a change shows where it is.
    text = json.dumps(golden, separators=(",", ":"))
    text = text.replace('{"name"', '\n{"name"')
    with open(arguments.out, "w", encoding="utf-8") as file:
        file.write(text + "\n")


if __name__ == "__main__":
    main()
