//! The process's default device. Alone in its program: it is everybody's.

use kiln::prelude::*;

#[test]
fn what_is_made_on_any_thread_is_on_the_default_device() {
    let made = || Tensor::zeros([2], ()).device();
    Device::null().set_default();
    assert_eq!(made(), Device::null());
    assert_eq!(std::thread::spawn(made).join().expect("the thread made a tensor"), Device::null());
    assert_eq!(kiln::with_device(Device::meta(), made), Device::meta(), "a scope goes before it");
    Device::cpu().set_default();
    assert_eq!(made(), Device::cpu());
}
