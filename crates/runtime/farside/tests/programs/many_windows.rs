//! A program may have thousands of windows.

use farside::Rank;

#[test]
fn thousands_of_windows_are_fine() {
    farside::local(2, |world| {
        let windows: Vec<_> =
            (0..5000).map(|_| world.window::<u64>(3)).collect::<Result<_, _>>()?;
        let other = Rank(1 - world.rank().0);
        for (number, window) in windows.iter().enumerate() {
            world.put_value(number as u64, window.at(other, 2))?;
        }
        world.sync()?;
        for (number, window) in windows.into_iter().enumerate() {
            assert_eq!(window.own().get(2)?, number as u64);
            window.free(world)?;
        }
        Ok(())
    })
    .unwrap();
}
