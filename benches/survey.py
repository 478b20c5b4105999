"""The work of `survey` in PyTorch, beside kiln: runs `PROGRAM --device DEVICE` and PyTorch in
turn, and prints a table, what is furthest behind first.

    cargo bench --bench survey --no-run
    python benches/survey.py target/release/deps/survey-... [--device cuda] [--large] [--compile] [--items na,z01]

On the CPU times are CPU time of all threads, on a GPU the wall time of a call that is waited
for (medians). `--compile` runs `torch.compile` too and compares with the better; `--exact` forbids TF32 in
convolutions, which PyTorch otherwise takes. Results are compared by two checksums within 1e-3, of
items with 16-bit floats 1e-2.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import time

ARGUMENTS = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
ARGUMENTS.add_argument("program")
ARGUMENTS.add_argument("--device", default="cpu")
ARGUMENTS.add_argument("--items", default="")
ARGUMENTS.add_argument("--large", action="store_true")
ARGUMENTS.add_argument("--compile", action="store_true")
ARGUMENTS.add_argument("--exact", action="store_true")
ARGUMENTS.add_argument("--peer", choices=["eager", "compile"], help="run only this, in this process")
THREADS = int(os.environ.get("NTHREADS", "2"))
BUDGET = float(os.environ.get("BUDGET_S", "0.3"))


def torch_items():
    """What each item computes."""
    import torch
    import torch.nn.functional as F

    def gradient(f):
        def row(*x):
            x = [y.detach().requires_grad_() for y in x]
            gradients = torch.autograd.grad(f(*x).square().mean(), x)
            return torch.cat([g.reshape(-1) for g in gradients])

        return row

    def gradient_of_the_first(f):
        def first(*x):
            x = [x[0].detach().requires_grad_(), *x[1:]]
            return torch.autograd.grad(f(*x), x[:1])[0]

        return first

    def lstm(x, h, c, a, b, d):
        i, f, g, o = (x @ a + h @ b + d).chunk(4, 1)
        return o.sigmoid() * (f.sigmoid() * c + i.sigmoid() * g.tanh()).tanh()

    def gru(x, h, a, b):
        for t in range(10):
            p, q = (x[t] @ a).chunk(3, 1), (h @ b).chunk(3, 1)
            r, z = (p[0] + q[0]).sigmoid(), (p[1] + q[1]).sigmoid()
            n = (p[2] + r * q[2]).tanh()
            h = (1.0 - z) * n + z * h
        return h

    def rope(x, c, s):
        y = x.view(4, 512, 8, 32, 2)
        a, b, c, s = y[..., 0], y[..., 1], c.view(512, 1, 32), s.view(512, 1, 32)
        return torch.stack((a * c - b * s, b * c + a * s), -1).view(4, 512, 8, 64)

    def blk(x, g, b, wq, wo, w1, w2):
        def norm(y):
            return F.layer_norm(y, (768,), g, b)

        q, k, v = (norm(x) @ (wq * 0.05)).view(8, 1024, 3, 12, 64).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).permute(0, 2, 1, 3).reshape(8, 1024, 768)
        y = x + a @ (wo * 0.05)
        return y + F.gelu(norm(y) @ (w1 * 0.05), approximate="tanh") @ (w2 * 0.03)

    return {
        # Norms, losses, and their gradients.
        "na": gradient(lambda x,g,b: F.group_norm(x,8,g,b)),
        "nb": gradient(lambda x,g,b: F.layer_norm(x,(768,),g,b)),
        "nc": gradient(lambda x,g,b: F.batch_norm(x,None,None,g,b,True)),
        "nd": gradient(lambda x,g: F.rms_norm(x,(768,),g,1e-5)),
        "ne": lambda x,g,b: F.batch_norm(x,None,None,g,b,True),
        "nf": lambda x: F.instance_norm(x).relu(),
        "ng": lambda x,y,g,b: F.layer_norm(x+y,(768,),g,b),
        "oa": gradient_of_the_first(lambda x: F.cross_entropy(x,torch.arange(4096)*7%1000)),
        "ob": lambda x,y: F.binary_cross_entropy_with_logits(x,y.sigmoid()),
        "oc": gradient_of_the_first(lambda x,y: F.huber_loss(x*3.0,y)),
        "od": lambda x: F.log_softmax(x,-1),
        "oe": lambda x,y: F.cosine_similarity(x,y,1),
        "of": lambda x,y,z: F.triplet_margin_loss(x,y,z),
        "og": lambda x,y: F.cross_entropy(F.normalize(x)@F.normalize(y).T*14.0,torch.arange(512)),
        # Functions of each element, optimizers' steps, integers and narrow types.
        "pa": lambda x: F.gelu(x,approximate='tanh'),
        "pb": lambda x: F.mish(x),
        "pc": gradient(lambda x: F.silu(x)),
        "pd": lambda x: F.softplus(x),
        "pe": lambda x: x.sin()*x.cos(),
        "pf": lambda x,y: torch.atan2(x,y),
        "pg": lambda x: (x.abs()+0.5)**2.5,
        "ph": lambda x: x.abs().log1p(),
        "pi": lambda x: x.erf(),
        "pj": lambda x: x.double().softmax(-1).float(),
        "pk": gradient(lambda x,y: torch.where(x>y,x*2.0,y*3.0)),
        "pl": lambda x: x[:,:1024].tanh()*x[:,1024:].sigmoid(),
        "pm": gradient(lambda x: F.elu(x)),
        "pn": lambda x: x.tan()+x.asin()+x.atan(),
        "sa": lambda p,g,m,v: p-(m*0.9+g*0.1)/((v.abs()*0.999+g.square()*0.001).sqrt()+1e-8)*0.001,
        "sb": lambda x: x*(1.0/(x.norm()+1e-6)).clamp(max=1.0),
        "xa": lambda x: ((x*100.0).int()*3+7).remainder(11).float(),
        "xb": lambda x: (x*100.0).long().sum(1).float(),
        "xc": lambda x: F.layer_norm(x.half(),(768,)).float(),
        "xd": lambda x: (x*127.0).round().clamp(-128.0,127.0)/127.0,
        "xe": lambda w,x,s: x@((w*127.0).to(torch.int32).float()*s),
        "xf": lambda x: ((x>0.1).float()*(x<0.7).float()).sum(),
        # Attention, and recurrent layers.
        "qa": lambda q,k,v: F.scaled_dot_product_attention(q,k,v,is_causal=True),
        "qb": gradient(lambda q,k,v: F.scaled_dot_product_attention(q,k,v)),
        "qc": lambda q,k,v,b: (q@k.transpose(-2,-1)*0.125+b).softmax(-1)@v,
        "qd": lambda q,k,v: F.scaled_dot_product_attention(q,k,v),
        "qe": lambda q,k,v: q.softmax(-1)@(k.softmax(-2).transpose(-2,-1)@v),
        "qf": gradient(lambda q,k,v: F.scaled_dot_product_attention(q,k,v,is_causal=True)),
        "ra": lstm,
        "rb": gru,
        # Pools, samples, borders and convolutions.
        "ta": lambda x: F.avg_pool2d(x,3,2),
        "tb": lambda x: F.max_pool2d(x,2,2),
        "tc": gradient(lambda x: F.avg_pool2d(x,2,2)),
        "td": lambda x: F.interpolate(x,scale_factor=2.0,mode='bicubic'),
        "te": lambda x: F.interpolate(x,scale_factor=2.0),
        "tf": lambda x,g: F.grid_sample(x,g,align_corners=False),
        "tg": lambda x: F.pixel_shuffle(x,2),
        "th": lambda x: F.pad(x,(3,3,3,3),mode='reflect'),
        "ti": lambda x,w: F.conv3d(x,w,padding=1),
        "tj": lambda x,w: F.conv1d(x,w,padding=4),
        "tk": lambda x,w: F.conv2d(x,w,padding=2,dilation=2),
        "tl": lambda x,w: F.conv2d(x,w,padding=1,groups=4),
        "tm": lambda x,w: F.conv2d(x,w,padding=3,stride=2).relu(),
        "tn": lambda x,w: F.conv2d(x,w,padding=2),
        "to": lambda x,w: F.silu(F.conv1d(F.pad(x,(3,0)),w,groups=512)),
        "tp": gradient(lambda x,w: F.conv2d(x,w,padding=1,groups=64)),
        "tq": lambda x,v,w,s,b: ((F.conv2d((F.conv2d(x,v,padding=1)*s.view(1,64,1,1)+b.view(1,64,1,1)).relu(),w,padding=1)*s.view(1,64,1,1)+b.view(1,64,1,1))+x).relu(),
        "tr": lambda x: F.unfold(x,3),
        "ts": lambda x,m,s: ((x.clamp(0,1).to(torch.uint8).float()/255.0-m)/(s.abs()+0.5)).permute(0,3,1,2).contiguous(),
        # Reductions, running results, sorts and counts.
        "ua": lambda x: x.var((0,2,3)),
        "ub": lambda x: x.logsumexp(0),
        "uc": lambda x: x.argmax(1).float(),
        "ud": lambda x: x.argmax(0).float(),
        "ue": lambda x: (x>2.0).any(1).float(),
        "uf": lambda x: x.cumprod(1),
        "ug": lambda x: x.amax(1),
        "uh": lambda x: x.sort(1)[0],
        "ui": lambda x: x.argsort(1).float(),
        "uj": lambda x: x.median(1)[0],
        "uk": lambda x: torch.histc(x,64,-1.0,1.0),
        "ul": lambda x: torch.bincount((x.abs()*999.0).long(),minlength=1000).float(),
        "um": lambda x: (x*0.01+1.0).prod(1),
        "un": lambda x: x.var(1)+x.mean(1).square()+x.amax(1),
        "uo": lambda x: torch.quantile(x,0.3,1),
        "up": lambda x,y: (x-y).square().mean(),
        "uq": lambda x: torch.where(x>0.0,3,1).int().sum(1).float(),
        "ur": lambda x: x.cumsum(0),
        "us": lambda x: x.logcumsumexp(1),
        # Gathers, scatters, and what only moves elements.
        "va": gradient(lambda t: F.embedding(torch.arange(8192)*7%1000,t)),
        "vb": lambda x: x.gather(1,(torch.arange(2048)*7%2048).view(1,2048).expand(2048,2048)),
        "vc": lambda x: x.index_select(1,torch.arange(1024)*3%2048),
        "vd": lambda x: x.masked_fill(x<0.0,-1e9).softmax(-1),
        "ve": lambda x: x.roll((3,5),(0,1)),
        "vf": lambda x: x.flip((0,1)),
        "vg": lambda x,y: (x*y).tril(),
        "vh": lambda x: F.one_hot((x.abs()*255.0).long(),256).float(),
        "vi": lambda x: x.repeat_interleave(4,1),
        "vj": lambda *x: torch.cat(x,1),
        "vk": lambda x,y: torch.stack((x,y),-1),
        "vl": rope,
        "vm": lambda x: x.view(8,3,14,16,14,16).permute(0,2,4,1,3,5).reshape(8,196,768),
        "vn": lambda x,p: (x.view(8,8,7,8,7,96).permute(0,1,3,2,4,5).reshape(512,49,96)+p)*2.0,
        "vo": lambda x: (lambda y: y[0].contiguous()+y[1]*y[2])(x.view(4,512,3,8,64).permute(2,0,3,1,4)),
        "vp": lambda x: torch.zeros(1000,64).scatter_reduce(0,(torch.arange(8192)*7%1000).view(-1,1).expand(8192,64),x,'amax'),
        "vq": lambda x: x.unfold(1,64,16).mean(-1),
        # Products of matrices, and linear algebra.
        "wa": lambda a,b: torch.einsum('bihd,bjhd->bhij',a,b),
        "wb": lambda x,y: torch.cdist(x,y),
        "wc": lambda x: torch.linalg.cholesky(x@x.T+torch.eye(256)*256.0),
        "wd": lambda x,y: torch.linalg.solve(x+torch.eye(256)*32.0,y),
        "we": lambda a,b: a@b,
        "wf": lambda a,b: (a.double()@b.double()).float(),
        "wg": lambda a: a.T@a,
        "wh": lambda x,w,b: (x@w+b).relu(),
        "wi": lambda a,b: a@b,
        "wj": lambda x,a,b: x@a@b*2.0+x,
        "wk": lambda x,y: (x[:,None]-y[None]).abs().sum(-1),
        "wl": lambda a,b,c: (a[:,None]*b[None]+c).exp().sum(1),
        "wm": lambda x,a,b: F.gelu(x@a)@b,
        "wn": lambda a,b: (a.bfloat16()@b.bfloat16()).float(),
        "wo": lambda a,b: ((a*100.0).int()@(b*100.0).int()).float(),
        "wp": lambda x: torch.linalg.inv(x+torch.eye(512)*32.0),
        "wq": lambda x,y: torch.linalg.solve_triangular((x+torch.eye(512)*32.0).tril(),y,upper=False),
        "wr": gradient_of_the_first(lambda x,y: torch.linalg.solve(x+torch.eye(256)*32.0,y).sum()),
        "ws": gradient(lambda x: torch.linalg.slogdet(x+torch.eye(256)*32.0)[1]),
        # Work that fills a GPU.
        "z01": (lambda *x: gradient(lambda q,k,v: F.scaled_dot_product_attention(q,k,v,is_causal=True))(*[y.bfloat16() for y in x]).float()),
        "z02": gradient(lambda q,k,v: F.scaled_dot_product_attention(q,k,v)),
        "z03": (lambda *x: gradient(blk)(*[y.bfloat16() for y in x]).float()),
        "z04": gradient(blk),
        "z05": gradient_of_the_first(lambda x: F.cross_entropy(x,torch.arange(4096)*7%1000)),
        "z06": lambda a,b: (a.bfloat16()@b.bfloat16()).float(),
        "z07": lambda x,w: F.conv2d(x,w,padding=1),
        "z08": lambda x,w: F.conv2d(x.bfloat16(),w.bfloat16(),padding=1).float(),
        "z09": (lambda *x: gradient(lambda x,w: F.conv2d(x,w,padding=1))(*[y.bfloat16() for y in x]).float()),
        "z10": gradient(lambda x,w: F.conv2d(x,w,padding=1)),
        "z11": lambda x: x.sort(1)[0],
        "z12": lambda x: x.topk(10)[0],
        "z13": lambda x: x.cumsum(0),
        "z14": lambda x: x.sum(),
        "z15": gradient(lambda t: F.embedding(torch.arange(32768)*7%50257,t)),
        "z16": lambda a,b: a@b,
        "z17": lambda a,b: a@b,
        "z18": lambda a,b: (a.bfloat16()@b.bfloat16()).float(),
        "z19": lambda a,b: (a.double()@b.double()).float(),
        "z20": lambda x: F.layer_norm(x.bfloat16(),(1024,)).float(),
        "z21": lambda x,g,b: F.batch_norm(x,None,None,g,b,True),
        "z22": lambda x: x.t().mul(2.0).contiguous(),
        "z23": lambda q,k,v: F.scaled_dot_product_attention(q.bfloat16(),k.bfloat16(),v.bfloat16()).float(),
        "z24": gradient(lambda x,g,b: F.batch_norm(x,None,None,g,b,True)),
        "z25": gradient(lambda x,g,b: F.layer_norm(x,(768,),g,b)),
        "z26": lambda x: F.max_pool2d(x,3,2,1),
        "z27": lambda x: x.softmax(-1),
        "z28": lambda x,w: F.conv2d(x,w,padding=1,groups=256),
        "z29": lambda x,w: F.conv2d(x,w,padding=3,stride=2).relu(),
        "z30": lambda q,k,v: F.scaled_dot_product_attention(q,k,v),
        "z31": lambda t: F.embedding(torch.arange(65536)*7%50257,t),
        "z32": lambda p,g,m,v: p-(m*0.9+g*0.1)/((v.abs()*0.999+g.square()*0.001).sqrt()+1e-8)*0.01,
    }


def values(shape, seed):
    """A hash of index and seed in -1..1, as the benchmark in Rust makes it; on the default device."""
    import torch

    # 32-bit numbers in 64 bits: a product goes by halves.
    def times(x, c):
        return (x * (c & 0xFFFF) + ((x * (c >> 16) & 0xFFFF) << 16)) & 0xFFFFFFFF

    x = times(torch.arange(math.prod(shape)) & 0xFFFFFFFF, 2654435761) + (seed * 40503 & 0xFFFFFFFF) & 0xFFFFFFFF
    x = times(x ^ x >> 16, 0x85EBCA6B)
    x = times(x ^ x >> 13, 0xC2B2AE35)
    x = x ^ x >> 16
    return ((x >> 8).float() * 2.0**-23 - 1.0).reshape(shape)


def timed(call, wait):
    """CPU and median wall milliseconds of a call."""
    for _ in range(3):
        call()
    wait()
    times, used, start = [], resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    while time.perf_counter() - start < BUDGET or len(times) < 5:
        before = time.perf_counter()
        call()
        wait()
        times.append((time.perf_counter() - before) * 1e3)
    spent = resource.getrusage(resource.RUSAGE_SELF)
    cpu = spent.ru_utime + spent.ru_stime - used.ru_utime - used.ru_stime
    return cpu / len(times) * 1e3, sorted(times)[len(times) // 2]


def run_peer(arguments, shapes):
    """Runs the items in PyTorch, in this process: a JSON line each."""
    import torch

    torch.set_default_device(arguments.device)
    torch.set_num_threads(THREADS)
    torch.backends.cudnn.allow_tf32 = not arguments.exact
    wait = torch.cuda.synchronize if arguments.device.startswith("cuda") else lambda: None
    items = torch_items()
    for item, inputs in shapes.items():
        x = [values(shape, number + 1) for number, shape in enumerate(inputs)]
        call = items[item.split("_")[0]]
        call = torch.compile(call) if arguments.peer == "compile" else call
        try:
            cpu_ms, median_ms = timed(lambda: call(*x), wait)
            y = call(*x).double().reshape(-1)
        except Exception as error:
            print(f"{item}: {error}", file=sys.stderr)
            continue
        weights = (torch.arange(y.numel()) % 101 - 50).double() / 50
        line = {"item": item, "cpu_ms": cpu_ms, "median_ms": median_ms}
        print(json.dumps(line | {"sum_abs": y.abs().sum().item(), "wsum": (y * weights).sum().item()}), flush=True)


def lines(command, items):
    """What a program prints for some items, by item."""
    environment = dict(os.environ, ITEMS=items, BUDGET_S=str(BUDGET), KILN_THREADS=str(THREADS))
    out = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True).stdout
    parsed = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return {line["item"]: line for line in parsed if line["item"] != "_process"}


def main():
    arguments = ARGUMENTS.parse_args()
    large = ["--large"] if arguments.large else []
    shapes = {item: line["shapes"] for item, line in lines([arguments.program, "--list", *large], arguments.items).items()}
    if arguments.peer:
        return run_peer(arguments, shapes)
    of_kiln = lines([arguments.program, "--device", arguments.device, *large], arguments.items)
    peers = ["eager", "compile"] if arguments.compile else ["eager"]
    of_peers = [lines([sys.executable, *sys.argv, "--peer", peer], arguments.items) for peer in peers]
    key = "cpu_ms" if arguments.device == "cpu" else "median_ms"
    rows = []
    for item, kiln in of_kiln.items():
        others = [of[item] for of in of_peers if item in of]
        best = min((other[key] for other in others), default=0)
        loose = 1e-2 if "16" in item else 1e-3
        agree = all(abs(o[s] - kiln[s]) <= loose * abs(o["sum_abs"]) + 1e-9 for o in others for s in ["sum_abs", "wsum"])
        rows.append((kiln[key] / best if best else 0, item, kiln[key], best, "" if agree else "differs"))
    print("| item | kiln, ms | torch, ms | ratio | |\n|---|---|---|---|---|")
    for ratio, item, mine, best, agrees in sorted(rows, reverse=True):
        print(f"| {item} | {mine:.4g} | {best:.4g} | {ratio:.2f} | {agrees} |")
    ratios = [math.log(row[0]) for row in rows if row[0] > 0]
    if ratios:
        print(f"geometric mean {math.exp(sum(ratios) / len(ratios)):.2f} of {len(ratios)} items")
    sys.exit(any(row[4] for row in rows))


if __name__ == "__main__":
    main()
