//! The manual and the completions, as the packages install them.

use topup_tests::Cli;

/// The commands that `topupd --help` lists.
async fn commands() -> Vec<String> {
    let help = Cli::new(&["--help"]).run().await.stdout;
    let list = help.split("Commands:\n").nth(1).and_then(|text| text.split("\n\n").next()).unwrap();
    let names = list.lines().filter_map(|line| line.strip_prefix("  "));
    names
        .filter_map(|line| line.split(' ').next())
        .filter(|name| !["", "help"].contains(name))
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn each_command_has_a_page_and_is_completed_by_each_shell() {
    let (commands, folder) = (commands().await, tempfile::tempdir().unwrap());
    assert!(commands.len() > 8, "{commands:?}");
    let pages = folder.path().join("pages");
    let told = Cli::new(&["man", "--folder", pages.to_str().unwrap()]).run().await;
    assert_eq!((told.code, told.stdout.as_str(), told.stderr.as_str()), (Some(0), "", ""));
    let whole = Cli::new(&["man"]).run().await.stdout;
    assert!(whole.contains(".TH topupd 8"), "{whole}");
    assert_eq!(std::fs::read_dir(&pages).unwrap().count(), commands.len() + 1, "{commands:?}");
    for name in &commands {
        let page = std::fs::read_to_string(pages.join(format!("topupd-{name}.8"))).unwrap();
        assert!(page.contains(&format!("\\fBtopupd {name}\\fR")), "{page}");
        assert!(whole.contains(&format!("topupd\\-{name}(8)")), "{name} in {whole}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let told = Cli::new(&["completions", shell]).run().await;
        assert_eq!(told.code, Some(0), "{told:?}");
        assert!(commands.iter().all(|name| told.stdout.contains(name)), "{shell}: {}", told.stdout);
    }
}

#[tokio::test]
async fn a_manual_that_cannot_be_written_is_an_error_that_names_the_folder() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let told = Cli::new(&["man", "--folder", file.path().to_str().unwrap()]).run().await;
    assert_eq!((told.code, told.stdout.as_str()), (Some(64), ""), "{told:?}");
    assert!(told.stderr.contains(&format!("into {}", file.path().display())), "{told:?}");
    let told = Cli::new(&["completions", "dos"]).run().await;
    assert_eq!(told.code, Some(64));
    assert!(told.stderr.contains("possible values: bash"), "{told:?}");
}
