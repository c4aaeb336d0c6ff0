# Evidence of a mixed model by R's packages: Rscript mixed.R package data.csv family spread scale seed
# Columns of the data: y, x1, x2, … (common effects, the intercept among them), g1, g2, … (groups).
# Prints log Z (or what stands for it) and its standard error.
words <- commandArgs(trailingOnly = TRUE)
data <- read.csv(words[2])
spread <- as.numeric(words[4]); scale <- as.numeric(words[5]); set.seed(as.integer(words[6]))
family <- switch(words[3], poisson = poisson(), probit = binomial("probit"), binomial("logit"))
common <- grep("^x", names(data), value = TRUE)
groups <- grep("^g", names(data), value = TRUE)
formula <- as.formula(paste(
  "y ~ 0 +", paste(c(common, sprintf("(1 | %s)", groups)), collapse = " + ")))
kept <- file.path(tempdir(), "draws.csv")  # bridge_sampler looks for this name again
bic <- function(fit) as.numeric(logLik(fit)) - 0.5 * attr(logLik(fit), "df") * log(nrow(data))

answer <- switch(words[1],
  lme4 = c(bic(lme4::glmer(formula, data, family)), NA),
  glmmTMB = c(bic(glmmTMB::glmmTMB(formula, data, family)), NA),
  bridgesampling = {
    fit <- rstanarm::stan_glmer(
      formula, data = data, family = family, seed = as.integer(words[6]), refresh = 0,
      chains = 4, iter = as.integer(words[7]), cores = 1, diagnostic_file = kept,
      prior = rstanarm::normal(0, spread, autoscale = FALSE),
      prior_covariance = rstanarm::decov(shape = 1, scale = scale))
    bridge <- bridgesampling::bridge_sampler(fit, silent = TRUE)
    c(bridge$logml, bridgesampling::error_measures(bridge)$cv)
  })
cat("\n", answer[1], answer[2], "\n")
