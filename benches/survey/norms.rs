//! Norms, losses, and their gradients.

use kiln::prelude::*;

use crate::support::item::{Item, gradient, gradient_of_the_first};

use DType::F32;

pub const ITEMS: &[Item] = &[
    Item("na_grad_group_norm", &[&[8, 64, 56, 56], &[64], &[64]], F32, |x| {
        gradient(x, |x| x[0].group_norm(8, NormOpts::default().weight(&x[1]).bias(&x[2])))
    }),
    Item("nb_grad_layer_norm", &[&[4096, 768], &[768], &[768]], F32, |x| {
        gradient(x, |x| x[0].layer_norm([768], NormOpts::default().weight(&x[1]).bias(&x[2])))
    }),
    Item("nc_grad_batch_norm", &[&[16, 64, 32, 32], &[64], &[64]], F32, |x| {
        gradient(x, |x| x[0].batch_norm(RunningNormOpts::training().weight(&x[1]).bias(&x[2])))
    }),
    Item("nd_grad_rms_norm", &[&[4096, 768], &[768]], F32, |x| {
        gradient(x, |x| x[0].rms_norm([768], NormOpts::default().weight(&x[1])))
    }),
    Item("ne_batch_norm_training", &[&[32, 64, 56, 56], &[64], &[64]], F32, |x| {
        x[0].batch_norm(RunningNormOpts::training().weight(&x[1]).bias(&x[2]))
    }),
    Item("nf_instance_norm_relu", &[&[8, 64, 56, 56]], F32, |x| {
        x[0].instance_norm(RunningNormOpts::training()).relu()
    }),
    Item("ng_add_layer_norm", &[&[4096, 768], &[4096, 768], &[768], &[768]], F32, |x| {
        (&x[0] + &x[1]).layer_norm([768], NormOpts::default().weight(&x[2]).bias(&x[3]))
    }),
    Item("oa_grad_cross_entropy", &[&[4096, 1000]], F32, |x| {
        gradient_of_the_first(x, |x| {
            x[0].cross_entropy(&(Tensor::arange(0, 4096, 1, x[0].device()) * 7 % 1000), Default::default())
        })
    }),
    Item("ob_bce_logits", &[&[1_048_576], &[1_048_576]], F32, |x| {
        x[0].binary_cross_entropy_with_logits(&x[1].sigmoid(), Default::default())
    }),
    Item("oc_grad_huber", &[&[1_048_576], &[1_048_576]], F32, |x| {
        gradient_of_the_first(x, |x| (&x[0] * 3.0).huber_loss(&x[1], Default::default()))
    }),
    Item("od_log_softmax", &[&[2048, 4096]], F32, |x| x[0].log_softmax(-1)),
    Item("oe_cosine_similarity", &[&[4096, 512], &[4096, 512]], F32, |x| {
        x[0].cosine_similarity(&x[1], 1, 1e-8)
    }),
    Item("of_triplet", &[&[4096, 256], &[4096, 256], &[4096, 256]], F32, |x| {
        x[0].triplet_margin_loss(&x[1], &x[2], Default::default())
    }),
    Item("og_contrastive", &[&[512, 256], &[512, 256]], F32, |x| {
        (x[0].normalize(2.0, 1, 1e-12).matmul(&x[1].normalize(2.0, 1, 1e-12).t()) * 14.0)
            .cross_entropy(&Tensor::arange(0, 512, 1, x[0].device()), Default::default())
    }),
];
